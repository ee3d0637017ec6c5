//===- Tokenizer.h - Text to tokens and back --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokenizers: bytes, and what a Hugging Face tokenizer.json describes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_H

#include "heddle/runtime/io/Diagnostic.h"
#include <memory>
#include <optional>

namespace heddle::io {

/// Text to token ids and back.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  /// One more than the largest id.
  virtual int64_t vocabSize() const = 0;
  /// The tokens of a text. What is no UTF-8 counts as U+FFFD, as in Python's
  /// errors="replace", unless tokens are bytes. Throws H0353 for what has none.
  virtual std::vector<int32_t> encode(const std::string &text) const = 0;
  /// As `encode`, but if tokens stand for bytes, such that `decode` gives them
  /// back, then with the bytes that are no UTF-8.
  virtual std::vector<int32_t> encodeBytes(const std::string &text) const {
    return encode(text);
  }
  /// As `encode`, with the special tokens that the tokenizer puts around a
  /// text.
  virtual std::vector<int32_t> encodePrompt(const std::string &text) const = 0;
  /// Those special tokens: the ones before a text, and the ones after it.
  virtual std::vector<int32_t> openingTokens() const { return {}; }
  virtual std::vector<int32_t> closingTokens() const { return {}; }
  /// The special token that the files beside tokenizer.json, or what they say
  /// of the tokenizer's class, have under this name (TokenNames.h).
  virtual std::optional<int32_t> namedToken(const std::string &) const {
    return std::nullopt;
  }
  /// What ends a document, when the tokenizer has such a token: the end of
  /// sequence that the files beside it name, or one that is known by its text.
  /// Throws H0374 for a name that it has no token of.
  virtual std::optional<int32_t> endOfText() const { return std::nullopt; }
  /// The text of tokens, of special ones too unless they are not wanted. Those
  /// of a byte-level tokenizer are bytes, not always valid UTF-8.
  virtual std::string decode(const std::vector<int32_t> &ids,
                             bool withSpecial = true) const = 0;
  /// How a token is written behind others, special or not: bytes, which need
  /// not be whole characters.
  virtual std::string pieceOf(int32_t id) const = 0;
  /// Whether a text may be cut before a space between two letters, and the
  /// parts encoded one by one.
  virtual bool splitsBeforeWords() const = 0;
};

/// The text of tokens that come one by one: the parts that are given back are
/// together the text of all of them, without special ones. A part ends where a
/// character does.
class TextStream {
public:
  /// `before`: tokens that the text goes on from, and of which nothing is given
  /// back.
  explicit TextStream(const Tokenizer &tokenizer,
                      const std::vector<int32_t> &before = {});
  std::string add(const std::vector<int32_t> &more);
  /// What was held back because a character was not complete.
  std::string finish();

private:
  std::string rest(const std::string &text);
  const Tokenizer &tokenizer;
  /// Tokens from the last part on, of which `shown` have been given back: how
  /// a token is written may depend on the one before.
  std::vector<int32_t> ids;
  size_t shown = 0;
};

/// `bytes`, or a directory with a tokenizer.json; throws H0350 to H0353. With
/// `lowersCase` a text is put into lower case first.
std::unique_ptr<Tokenizer> openTokenizer(const std::string &name,
                                         bool lowersCase = false);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_H
