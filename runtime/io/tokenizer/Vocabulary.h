//===- Vocabulary.h - Tokens and their ids ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vocabulary of a tokenizer, and the characters that represent bytes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_VOCABULARY_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_VOCABULARY_H

#include "heddle/runtime/io/Json.h"
#include <unordered_map>

namespace heddle::io {

/// Upper bound of token ids.
inline constexpr int64_t maxVocabulary = int64_t(1) << 24;

/// The tokens of a tokenizer.json, by text and by id.
class Vocabulary {
public:
  /// Adds a token; `at` is its position for errors. Throws H0352 for a
  /// duplicate token or id, or an id outside [0, 2^24).
  void add(const JsonValue &at, const std::string &token, int64_t id);
  /// Reads an object that maps tokens to ids.
  void read(const JsonValue &object);
  std::optional<int32_t> find(const std::string &token) const {
    auto it = ids.find(token);
    return it == ids.end() ? std::nullopt : std::optional<int32_t>(it->second);
  }
  /// Returns the text of a token; "" if it does not exist.
  const std::string &operator[](int32_t id) const {
    static const std::string none;
    return id >= 0 && id < size() ? tokens[id] : none;
  }
  /// Returns one more than the largest id.
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }

private:
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> tokens;
};

/// Returns the token of a single byte, such as `<0x0A>`, in vocabularies that
/// have such tokens.
std::string byteToken(uint8_t byte);
/// Returns the byte of a token such as `<0x0A>`; -1 for other tokens.
int byteOfToken(const std::string &token);

/// Conversion between bytes and the 256 characters that represent them in
/// byte-level tokenizers. A printable byte is represented by the character with
/// the same code. The other bytes are represented by the characters from U+0100
/// on, in order.
namespace alphabet {
/// Appends the characters that represent `bytes`.
void append(std::string &text, const std::string &bytes);
/// Returns the bytes that `characters` represent; nothing if one of them
/// represents no byte.
std::optional<std::string> toBytes(const std::string &characters);
} // namespace alphabet

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_VOCABULARY_H
