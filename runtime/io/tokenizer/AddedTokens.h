//===- AddedTokens.h - Added tokens of a tokenizer --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a text at added tokens, such as special tokens, before the other
// stages of a tokenizer.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_ADDEDTOKENS_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_ADDEDTOKENS_H

#include "Stages.h"
#include "Vocabulary.h"

namespace heddle::io {

/// The `added_tokens` of a tokenizer.json, which are found before the text is
/// split. Some are matched in the text as it is, others after normalization.
class AddedTokens {
public:
  /// Throws H0352 for a token without text or with an invalid id.
  AddedTokens(const JsonValue &root, const TokenModel &model,
              const Normalizer &normalizer);

  /// A segment of a text: an added token, or the text between two.
  struct Segment {
    TextPiece piece;
    int32_t id; ///< -1 for text between tokens.
  };
  /// Splits a text into segments; text between tokens is normalized. No segment
  /// is empty.
  std::vector<Segment> split(const std::string &text,
                             const Normalizer &normalizer) const;

  /// Returns the text of an added token, or null.
  const std::string *tokenOf(int32_t id) const;
  bool isSpecial(int32_t id) const;
  std::optional<int32_t> find(const std::string &content) const;
  /// One more than the largest id.
  int64_t vocabSize() const { return size; }

private:
  struct Token {
    std::string content;
    std::string pattern; ///< The text to match.
    int32_t id;
    bool stripsLeft, stripsRight, isWord, isSpecial;
  };
  /// Tokens by the first byte of their pattern, longest pattern first.
  using Table = std::vector<const Token *>[256];
  void splitBy(const Table &table, const Segment &segment,
               std::vector<Segment> &segments) const;

  std::vector<Token> tokens;
  std::unordered_map<int32_t, const Token *> byId;
  Table plain, normalized;
  int64_t size = 0;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_ADDEDTOKENS_H
