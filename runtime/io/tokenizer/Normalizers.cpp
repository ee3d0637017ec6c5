//===- Normalizers.cpp - Normalize texts ----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The normalizers of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "Vocabulary.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::io;
using unicode::Character;

void io::prepend(TextPiece &piece, const std::string &what) {
  piece.text.insert(0, what);
  piece.head += piece.head > 0 ? what.size() : 0;
}

TextPiece io::replace(const TextPiece &piece, const Regex &pattern,
                      const std::string &content) {
  TextPiece result;
  for (const Span &span : pattern.spans(piece.text)) {
    if (span.isMatch)
      result.text += content;
    else
      result.text.append(piece.text, span.begin, span.end - span.begin);
    if (span.end <= piece.head)
      result.head = result.text.size();
    else if (!span.isMatch && span.begin < piece.head)
      result.head = result.text.size() - (span.end - piece.head);
  }
  return result;
}

TextPiece io::bytesAsCharacters(const TextPiece &piece) {
  std::string head;
  alphabet::append(head, piece.text.substr(0, piece.head));
  TextPiece result = {head, head.size()};
  result.text.reserve(2 * piece.text.size());
  alphabet::append(result.text, piece.text.substr(piece.head));
  return result;
}

/// Replaces each character by what `visit` appends.
template <typename Visitor>
static TextPiece mapCharacters(const TextPiece &piece, Visitor visit) {
  TextPiece result;
  result.text.reserve(piece.text.size());
  unicode::forEach(piece.text, [&](Character character, size_t offset) {
    if (character.isValid)
      visit(result.text, character.code);
    else
      result.text += piece.text[offset];
    if (offset < piece.head)
      result.head = result.text.size();
  });
  return result;
}

static TextPiece normalize(const TextPiece &piece, unicode::Form form) {
  TextPiece result = {unicode::normalize(piece.text, form)};
  size_t head =
      unicode::normalize(piece.text.substr(0, piece.head), form).size();
  // `head` counts the bytes that come from the first character of the whole
  // text. These bytes may now end inside a character, since combining marks may
  // have been composed with the first one. Let them end after that character.
  while (result.head < std::min(head, result.text.size()))
    result.head += unicode::characterAt(result.text, result.head).length;
  return result;
}

static Normalizer makeForm(unicode::Form form) {
  return [form](const TextPiece &piece) { return normalize(piece, form); };
}

static TextPiece lower(const TextPiece &piece) {
  return mapCharacters(piece, unicode::appendLower);
}

static Normalizer makeLowercase(const JsonValue &) { return lower; }

Normalizer io::lowered(Normalizer next) {
  return [next = std::move(next)](const TextPiece &piece) {
    return next(lower(piece));
  };
}

static Normalizer makeStripAccents(const JsonValue &) {
  return [](const TextPiece &piece) {
    return mapCharacters(piece, [](std::string &out, uint32_t code) {
      if (!unicode::isMark(code))
        unicode::append(out, code);
    });
  };
}

static Normalizer makeStrip(const JsonValue &value) {
  bool left = value.boolOr("strip_left", true);
  bool right = value.boolOr("strip_right", true);
  return [left, right](const TextPiece &piece) {
    const std::string &text = piece.text;
    size_t begin = text.size(), end = 0;
    unicode::forEach(text, [&](Character character, size_t offset) {
      if (unicode::isSpace(character.code))
        return;
      begin = std::min(begin, offset);
      end = offset + character.length;
    });
    begin = left ? begin : 0;
    end = right ? end : text.size();
    return begin < end ? piece.part(begin, end) : TextPiece();
  };
}

static Normalizer makePrepend(const JsonValue &value) {
  return [what = value.at("prepend").asString()](TextPiece piece) {
    if (!piece.text.empty())
      prepend(piece, what);
    return piece;
  };
}

static Normalizer makeReplace(const JsonValue &value) {
  return [pattern = patternOf(value),
          content = value.at("content").asString()](const TextPiece &piece) {
    return replace(piece, pattern, content);
  };
}

static Normalizer makeByteLevel(const JsonValue &) { return bytesAsCharacters; }

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
  return [=](TextPiece piece) {
    if (cleans)
      piece = mapCharacters(piece, cleanCharacter);
    if (spaces)
      piece = mapCharacters(piece, spaceCharacter);
    if (strips)
      piece = mapCharacters(normalize(piece, unicode::Form::D),
                            [](std::string &out, uint32_t code) {
                              if (!unicode::isNonspacingMark(code))
                                unicode::append(out, code);
                            });
    return lowers ? lower(piece) : piece;
  };
}

static Normalizer makeSequence(const JsonValue &value) {
  std::vector<Normalizer> parts;
  for (const JsonValue &part : value.at("normalizers").elements())
    parts.push_back(makeNormalizer(part));
  return [parts](TextPiece piece) {
    for (const Normalizer &part : parts)
      piece = part(std::move(piece));
    return piece;
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
