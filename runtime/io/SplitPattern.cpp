//===- SplitPattern.cpp - Splitting a text before merging -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SplitPattern.h"
#include <algorithm>
#include <cstdint>
#include <iterator>

using namespace heddle;
using namespace heddle::io;

namespace {
struct CodeRange {
  uint32_t first, last;
};
enum class Class { Letter, Number, Space, Other };
/// A decoded character: its class, and its bytes in the text.
struct Character {
  Class kind;
  size_t length;
};
} // namespace

#include "UnicodeTables.inc"

const char *const io::gpt2SplitPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";

static constexpr CodeRange spaceRanges[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
    {0x205F, 0x205F}, {0x3000, 0x3000}};

template <size_t N>
static bool contains(const CodeRange (&ranges)[N], uint32_t code) {
  const CodeRange *it = std::upper_bound(
      std::begin(ranges), std::end(ranges), code,
      [](uint32_t key, const CodeRange &range) { return key < range.first; });
  return it != std::begin(ranges) && code <= std::prev(it)->last;
}

static Class classify(uint32_t code) {
  if (contains(spaceRanges, code))
    return Class::Space;
  if (contains(letterRanges, code))
    return Class::Letter;
  return contains(numberRanges, code) ? Class::Number : Class::Other;
}

/// Decodes the character at `offset`; a byte that begins none stands alone.
static Character decodeAt(const std::string &text, size_t offset) {
  uint8_t first = static_cast<uint8_t>(text[offset]);
  if (first < 0x80)
    return {classify(first), 1};
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || offset + length > text.size())
    return {Class::Other, 1};
  uint32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    uint8_t next = static_cast<uint8_t>(text[offset + i]);
    if ((next & 0xC0) != 0x80)
      return {Class::Other, 1};
    code = code << 6 | (next & 0x3F);
  }
  constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < smallest[length] || code > 0x10FFFF || surrogate)
    return {Class::Other, 1};
  return {classify(code), length};
}

size_t io::characterLength(const std::string &text, size_t offset) {
  return decodeAt(text, offset).length;
}

bool io::isSpaceAt(const std::string &text, size_t offset) {
  return decodeAt(text, offset).kind == Class::Space;
}

/// The end of the contraction that begins at `offset`, or `offset`.
static size_t matchContraction(const std::string &text, size_t offset) {
  for (const char *word : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    size_t length = std::char_traits<char>::length(word);
    if (text.compare(offset, length, word) == 0)
      return offset + length;
  }
  return offset;
}

/// The end of the run of characters of one class that begins at `offset`;
/// `last` gets the beginning of the run's last character.
static size_t matchRun(const std::string &text, size_t offset, Class kind,
                       size_t *last = nullptr) {
  while (offset < text.size()) {
    Character character = decodeAt(text, offset);
    if (character.kind != kind)
      break;
    if (last)
      *last = offset;
    offset += character.length;
  }
  return offset;
}

/// The end of the piece that begins at `offset`.
static size_t matchPiece(const std::string &text, size_t offset) {
  size_t end = matchContraction(text, offset);
  if (end != offset)
    return end;
  size_t begin = offset + (text[offset] == ' ' ? 1 : 0);
  if (begin < text.size()) {
    Class kind = decodeAt(text, begin).kind;
    if (kind != Class::Space)
      return matchRun(text, begin, kind);
  }
  // White space: all of it at the end of the text, else all but the last
  // character, which goes with what follows or stands alone.
  size_t last = offset;
  end = matchRun(text, offset, Class::Space, &last);
  return end == text.size() || last == offset ? end : last;
}

std::vector<std::string> io::splitGpt2(const std::string &text) {
  std::vector<std::string> pieces;
  for (size_t offset = 0; offset < text.size();) {
    size_t end = matchPiece(text, offset);
    pieces.push_back(text.substr(offset, end - offset));
    offset = end;
  }
  return pieces;
}
