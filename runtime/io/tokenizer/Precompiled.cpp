//===- Precompiled.cpp - SentencePiece's normalizer -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SentencePiece's normalizer with a compiled table of replacements. The table
// consists of three parts: a number, which is the size of a trie in bytes; the
// trie (a double array in the layout of Darts-clone, 32-bit units); and the
// replacements, each ended by a zero byte. All numbers are little-endian.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <cstring>

using namespace heddle;
using namespace heddle::io;

static std::string fromBase64(const JsonValue &value) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : value.asString()) {
    if (c == '=')
      break;
    size_t digit = digits.find(c);
    if (digit == std::string::npos)
      value.fail("H0352", "the table of replacements is not in base 64",
                 "download the tokenizer again");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) >= 8)
      bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

namespace {
class Replacements {
public:
  explicit Replacements(const JsonValue &value) {
    std::string bytes = fromBase64(value);
    uint32_t size = 0;
    if (bytes.size() >= sizeof size)
      std::memcpy(&size, bytes.data(), sizeof size);
    if (size == 0 || size % sizeof(uint32_t) != 0 ||
        size > bytes.size() - sizeof size)
      value.fail("H0352", "the table of replacements is damaged",
                 "download the tokenizer again");
    units.resize(size / sizeof(uint32_t));
    std::memcpy(units.data(), bytes.data() + sizeof size, size);
    texts = bytes.substr(sizeof size + size);
  }

  /// Returns the replacement of `text`, or null.
  const char *find(const std::string &text) const {
    std::optional<uint32_t> place = shortestPrefix(text);
    return place && *place < texts.size() ? texts.c_str() + *place : nullptr;
  }

private:
  /// Returns the value of the shortest prefix of `text` in the trie.
  std::optional<uint32_t> shortestPrefix(const std::string &text) const {
    size_t at = 0;
    uint32_t unit = units[0];
    at ^= offsetOf(unit);
    for (char c : text) {
      uint32_t label = static_cast<uint8_t>(c);
      at ^= label;
      if (c == 0 || at >= units.size())
        return std::nullopt;
      unit = units[at];
      if ((unit & (1u << 31 | 0xFF)) != label)
        return std::nullopt;
      at ^= offsetOf(unit);
      if (at >= units.size())
        return std::nullopt;
      if (unit >> 8 & 1) // This node has a leaf.
        return units[at] & ~(1u << 31);
    }
    return std::nullopt;
  }
  static size_t offsetOf(uint32_t unit) {
    return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
  }

  std::vector<uint32_t> units;
  std::string texts;
};
} // namespace

namespace {
/// Builds the new text of a piece, `made.text`, from the piece's old text.
/// Tracks how many leading bytes of the new text come from the first character
/// of the tokenizer's complete input (TextPiece::head).
class Replacing {
public:
  explicit Replacing(const TextPiece &old) : old(old) {}
  /// Appends `to`, which replaces the text `from`. Each character of `to` comes
  /// from the character of `from` at the same index. If `to` is longer than
  /// `from`, its further characters come from the last character of `from`. If
  /// `to` is empty and nothing was appended before, the text that is appended
  /// next counts as coming from `from`.
  void add(const std::string &from, const std::string &to) {
    size_t left = 0;
    unicode::forEach(from, [&](unicode::Character, size_t) { ++left; });
    unicode::forEach(to, [&](unicode::Character character, size_t offset) {
      if (left > 0) {
        isHead = place < old.head;
        skipOne();
        --left;
      }
      made.text.append(to, offset, character.length);
      if (isHead)
        made.head = made.text.size();
    });
    for (; left > 0 && !made.text.empty(); --left)
      skipOne();
  }
  TextPiece made;

private:
  void skipOne() { place += unicode::characterAt(old.text, place).length; }

  const TextPiece &old;
  /// The offset, in the old text, of the character from which the next
  /// character of the new text comes.
  size_t place = 0;
  bool isHead = false;
};
} // namespace

Normalizer io::makePrecompiled(const JsonValue &value) {
  Replacements table(value.at("precompiled_charsmap"));
  return [table](const TextPiece &piece) {
    const std::string &text = piece.text;
    // Grapheme clusters of 6 or more bytes are looked up character by
    // character, as in Hugging Face's library `tokenizers`.
    constexpr size_t longest = 6;
    Replacing result(piece);
    for (size_t begin = 0; begin < text.size();) {
      size_t end = unicode::endOfGrapheme(text, begin);
      std::string cluster = text.substr(begin, end - begin);
      begin = end;
      const char *found =
          cluster.size() < longest ? table.find(cluster) : nullptr;
      if (found) {
        result.add(cluster, found);
        continue;
      }
      unicode::forEach(cluster, [&](unicode::Character character, size_t at) {
        std::string one = cluster.substr(at, character.length);
        const char *other = table.find(one);
        result.add(one, other ? other : one);
      });
    }
    return result.made;
  };
}
