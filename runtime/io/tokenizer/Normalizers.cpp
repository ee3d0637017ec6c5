//===- Normalizers.cpp - What texts become before they are split ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "Unicode.h"
#include "Vocabulary.h"

using namespace heddle;
using namespace heddle::io;
using unicode::Character;

/// What is left when each character is replaced by what `visit` appends.
template <typename Visitor>
static std::string mapCharacters(const std::string &text, Visitor visit) {
  std::string result;
  result.reserve(text.size());
  unicode::forEach(text, [&](Character character, size_t offset) {
    if (character.isValid)
      visit(result, character.code);
    else
      result += text[offset];
  });
  return result;
}

static Normalizer makeForm(unicode::Form form) {
  return [form](const std::string &text) {
    return unicode::normalize(text, form);
  };
}

static std::string lower(const std::string &text) {
  return mapCharacters(text, unicode::appendLower);
}

static Normalizer makeLowercase(const JsonValue &) { return lower; }

static Normalizer makeStripAccents(const JsonValue &) {
  return [](const std::string &text) {
    return mapCharacters(text, [](std::string &out, uint32_t code) {
      if (!unicode::isMark(code))
        unicode::append(out, code);
    });
  };
}

static Normalizer makeStrip(const JsonValue &value) {
  bool left = value.boolOr("strip_left", true);
  bool right = value.boolOr("strip_right", true);
  return [left, right](const std::string &text) {
    size_t begin = text.size(), end = 0;
    unicode::forEach(text, [&](Character character, size_t offset) {
      if (unicode::isSpace(character.code))
        return;
      begin = std::min(begin, offset);
      end = offset + character.length;
    });
    begin = left ? begin : 0;
    end = right ? end : text.size();
    return begin < end ? text.substr(begin, end - begin) : std::string();
  };
}

static Normalizer makePrepend(const JsonValue &value) {
  return [what = value.at("prepend").asString()](std::string text) {
    return text.empty() ? text : what + text;
  };
}

static Normalizer makeReplace(const JsonValue &value) {
  return [pattern = patternOf(value),
          content = value.at("content").asString()](const std::string &text) {
    return pattern.replace(text, content);
  };
}

static Normalizer makeByteLevel(const JsonValue &) {
  return [](const std::string &text) {
    std::string result;
    alphabet::append(result, text);
    return result;
  };
}

/// The blocks of ideographs around which BERT's normalizer puts spaces.
static bool isIdeograph(uint32_t code) {
  static constexpr std::pair<uint32_t, uint32_t> blocks[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
      {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
      {0x2F800, 0x2FA1F}};
  for (auto [first, last] : blocks)
    if (code >= first && code <= last)
      return true;
  return false;
}

static void cleanCharacter(std::string &out, uint32_t code) {
  bool isLayout = code == '\t' || code == '\n' || code == '\r';
  if (!isLayout && (code == 0xFFFD || unicode::isControl(code)))
    return;
  if (unicode::isSpace(code))
    out += ' ';
  else
    unicode::append(out, code);
}

static void spaceCharacter(std::string &out, uint32_t code) {
  bool isSpaced = isIdeograph(code);
  if (isSpaced)
    out += ' ';
  unicode::append(out, code);
  if (isSpaced)
    out += ' ';
}

static Normalizer makeBert(const JsonValue &value) {
  bool lowers = value.boolOr("lowercase", true);
  bool strips = value.boolOr("strip_accents", lowers);
  bool cleans = value.boolOr("clean_text", true);
  bool spaces = value.boolOr("handle_chinese_chars", true);
  return [=](std::string text) {
    if (cleans)
      text = mapCharacters(text, cleanCharacter);
    if (spaces)
      text = mapCharacters(text, spaceCharacter);
    if (strips)
      text = mapCharacters(unicode::normalize(text, unicode::Form::D),
                           [](std::string &out, uint32_t code) {
                             if (!unicode::isNonspacingMark(code))
                               unicode::append(out, code);
                           });
    return lowers ? lower(text) : text;
  };
}

static Normalizer makeSequence(const JsonValue &value) {
  std::vector<Normalizer> parts;
  for (const JsonValue &part : value.at("normalizers").elements())
    parts.push_back(makeNormalizer(part));
  return [parts](std::string text) {
    for (const Normalizer &part : parts)
      text = part(std::move(text));
    return text;
  };
}

Normalizer io::makeNormalizer(const JsonValue &value) {
  using unicode::Form;
  return makeStage<Normalizer>(
      value, "normalizer",
      {{"NFC", [](const JsonValue &) { return makeForm(Form::C); }},
       {"NFD", [](const JsonValue &) { return makeForm(Form::D); }},
       {"NFKC", [](const JsonValue &) { return makeForm(Form::KC); }},
       {"NFKD", [](const JsonValue &) { return makeForm(Form::KD); }},
       {"Lowercase", makeLowercase},
       {"StripAccents", makeStripAccents},
       {"Strip", makeStrip},
       {"Prepend", makePrepend},
       {"Replace", makeReplace},
       {"ByteLevel", makeByteLevel},
       {"BertNormalizer", makeBert},
       {"Precompiled", makePrecompiled},
       {"Sequence", makeSequence}});
}
