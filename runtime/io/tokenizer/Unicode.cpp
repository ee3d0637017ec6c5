//===- Unicode.cpp - Characters of a text ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

using namespace heddle;
using namespace heddle::io;

static constexpr uint32_t replacement = 0xFFFD;

unicode::Character unicode::characterAt(const std::string &text,
                                        size_t offset) {
  utf8proc_int32_t code = 0;
  utf8proc_ssize_t length = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t *>(text.data()) + offset,
      static_cast<utf8proc_ssize_t>(text.size() - offset), &code);
  if (length <= 0 || code < 0)
    return {replacement, 1, false};
  return {static_cast<uint32_t>(code), static_cast<uint32_t>(length), true};
}

void unicode::append(std::string &text, uint32_t code) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char *>(bytes), length);
}

bool unicode::isValid(const std::string &text) {
  bool result = true;
  forEach(text,
          [&](Character character, size_t) { result &= character.isValid; });
  return result;
}

/// The text at `offset` is invalid UTF-8. Returns the length of the longest
/// byte sequence at `offset` that is the beginning of a valid character; 1 if
/// there is none. For some characters the second byte has a restricted range
/// (Unicode, table 3-7).
static size_t lengthOfInvalid(const std::string &text, size_t offset) {
  auto byteAt = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  uint8_t first = byteAt(offset), low = 0x80, high = 0xBF;
  size_t length = first < 0xC2    ? 1
                  : first <= 0xDF ? 2
                  : first <= 0xEF ? 3
                  : first <= 0xF4 ? 4
                                  : 1;
  if (first == 0xE0)
    low = 0xA0;
  else if (first == 0xED)
    high = 0x9F;
  else if (first == 0xF0)
    low = 0x90;
  else if (first == 0xF4)
    high = 0x8F;
  size_t end = offset + 1, limit = std::min(offset + length, text.size());
  while (end < limit && byteAt(end) >= low && byteAt(end) <= high) {
    low = 0x80;
    high = 0xBF;
    ++end;
  }
  return end - offset;
}

std::string unicode::replaceInvalid(const std::string &text) {
  std::string result;
  for (size_t offset = 0; offset < text.size();) {
    Character character = characterAt(text, offset);
    append(result, character.code);
    offset +=
        character.isValid ? character.length : lengthOfInvalid(text, offset);
  }
  return result;
}

int64_t unicode::countCharacters(const std::string &text) {
  int64_t count = 0;
  for (size_t offset = 0; offset < text.size(); ++count) {
    Character character = characterAt(text, offset);
    offset +=
        character.isValid ? character.length : lengthOfInvalid(text, offset);
  }
  return count;
}

static utf8proc_category_t categoryOf(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

static bool isBetween(uint32_t code, utf8proc_category_t first,
                      utf8proc_category_t last) {
  utf8proc_category_t category = categoryOf(code);
  return category >= first && category <= last;
}

bool unicode::isSpace(uint32_t code) {
  return (code >= 0x9 && code <= 0xD) || code == 0x85 ||
         isBetween(code, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool unicode::isPunctuation(uint32_t code) {
  if (code < 0x80)
    return code > ' ' && code < 0x7F && !isalnum(static_cast<int>(code));
  return isBetween(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool unicode::isNumber(uint32_t code) {
  return isBetween(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool unicode::isMark(uint32_t code) {
  return isBetween(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool unicode::isNonspacingMark(uint32_t code) {
  return categoryOf(code) == UTF8PROC_CATEGORY_MN;
}

bool unicode::isControl(uint32_t code) {
  utf8proc_category_t category = categoryOf(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool unicode::isWord(uint32_t code) {
  switch (categoryOf(code)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default: // Join controls, and letters in circles, which count as alphabetic.
    return code == 0x200C || code == 0x200D ||
           (code >= 0x24B6 && code <= 0x24E9);
  }
}

bool unicode::isLetter(uint32_t code) {
  return isBetween(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool unicode::isDecimal(uint32_t code) {
  return categoryOf(code) == UTF8PROC_CATEGORY_ND;
}

bool unicode::isDigit(uint32_t code) {
  static constexpr std::pair<uint32_t, uint32_t> others[] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},      {0x1369, 0x1371}, {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},  {0x2080, 0x2089}, {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},  {0x24EA, 0x24EA}, {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},  {0x2780, 0x2788}, {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x1F100, 0x1F10A}};
  for (auto [first, last] : others)
    if (code >= first && code <= last)
      return true;
  return isDecimal(code);
}

bool unicode::isGraphic(uint32_t code) {
  utf8proc_category_t category = categoryOf(code);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

bool unicode::isUpper(uint32_t code) {
  return categoryOf(code) == UTF8PROC_CATEGORY_LU;
}

bool unicode::isLower(uint32_t code) {
  return categoryOf(code) == UTF8PROC_CATEGORY_LL;
}

bool unicode::isCased(uint32_t code) {
  return isBetween(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT);
}

uint32_t unicode::title(uint32_t code) {
  return static_cast<uint32_t>(
      utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
}

uint32_t unicode::upper(uint32_t code) {
  return static_cast<uint32_t>(
      utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

void unicode::appendLower(std::string &text, uint32_t code) {
  append(text, static_cast<uint32_t>(
                   utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  if (code == 0x130) // The only character whose lower case has two characters.
    append(text, 0x307);
}

/// Normalizes valid UTF-8.
static std::string normalizeValid(const std::string &text,
                                  utf8proc_option_t options) {
  utf8proc_uint8_t *result = nullptr;
  utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options));
  std::unique_ptr<utf8proc_uint8_t, decltype(&free)> owner(result, free);
  if (length < 0)
    return text;
  return std::string(reinterpret_cast<const char *>(result), length);
}

std::string unicode::foldCase(const std::string &text) {
  return normalizeValid(text, UTF8PROC_CASEFOLD);
}

std::string unicode::normalize(const std::string &text, Form form) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::C || form == Form::KC ? UTF8PROC_COMPOSE
                                                 : UTF8PROC_DECOMPOSE;
  if (form == Form::KC || form == Form::KD)
    options |= UTF8PROC_COMPAT;
  std::string result, valid;
  auto flush = [&] {
    result += normalizeValid(valid, static_cast<utf8proc_option_t>(options));
    valid.clear();
  };
  forEach(text, [&](Character character, size_t offset) {
    if (character.isValid) {
      valid.append(text, offset, character.length);
      return;
    }
    flush();
    result += text[offset];
  });
  flush();
  return result;
}

size_t unicode::endOfGrapheme(const std::string &text, size_t offset) {
  Character before = characterAt(text, offset);
  utf8proc_int32_t state = 0;
  offset += before.length;
  while (offset < text.size()) {
    Character next = characterAt(text, offset);
    if (utf8proc_grapheme_break_stateful(
            static_cast<utf8proc_int32_t>(before.code),
            static_cast<utf8proc_int32_t>(next.code), &state))
      break;
    offset += next.length;
    before = next;
  }
  return offset;
}
