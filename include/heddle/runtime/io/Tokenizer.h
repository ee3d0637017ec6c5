//===- Tokenizer.h - Text to tokens and back --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text to token ids and back, as Hugging Face's tokenizers do it.
// `openTokenizer` reads a tokenizer.json. The steps of encoding and decoding,
// such as normalizers and models, are in runtime/io/tokenizer. A chat becomes
// tokens in ChatTemplate::encodeChat.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_H

#include "heddle/runtime/io/Diagnostic.h"
#include <memory>
#include <optional>

namespace heddle::io {

/// Converts text to token ids and back.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  /// One more than the largest id.
  virtual int64_t vocabSize() const = 0;
  /// Returns the tokens of a text. Invalid UTF-8 becomes U+FFFD, as with
  /// errors="replace" in Python, unless tokens are bytes. Throws H0353 for a
  /// character that has no token.
  virtual std::vector<int32_t> encode(const std::string &text) const = 0;
  /// Returns the tokens of a text. In contrast to `encode`, a byte-level
  /// tokenizer keeps bytes that are invalid UTF-8, so that `decode` returns
  /// them.
  virtual std::vector<int32_t> encodeBytes(const std::string &text) const {
    return encode(text);
  }
  /// Returns the tokens of a text, including the special tokens that the
  /// tokenizer puts before and after a text.
  virtual std::vector<int32_t> encodePrompt(const std::string &text) const = 0;
  /// The special tokens that `encodePrompt` puts before a text (openingTokens)
  /// and after it (closingTokens).
  virtual std::vector<int32_t> openingTokens() const { return {}; }
  virtual std::vector<int32_t> closingTokens() const { return {}; }
  /// Returns the special token of a role, such as `eos_token`. It is named by
  /// the files beside tokenizer.json, or else is the default of the
  /// tokenizer's class (TokenNames.h). Returns nothing if there is none.
  virtual std::optional<int32_t> namedToken(const std::string &) const {
    return std::nullopt;
  }
  /// Returns the token that ends a document, if there is one: the
  /// end-of-sequence token that the files name, or a token with a well-known
  /// text. Throws H0374 when the named token does not exist.
  virtual std::optional<int32_t> endOfText() const { return std::nullopt; }
  /// Returns the text of tokens, without special tokens unless `withSpecial`. A
  /// byte-level tokenizer may return invalid UTF-8.
  virtual std::string decode(const std::vector<int32_t> &ids,
                             bool withSpecial = true) const = 0;
  /// Returns the bytes that a token, special or not, adds to a text after other
  /// tokens. They may be an incomplete character.
  virtual std::string pieceOf(int32_t id) const = 0;
  /// Whether a text may be split before a space between two letters. It may if
  /// the tokens of the two parts together are those of the whole text.
  virtual bool splitsBeforeWords() const = 0;
};

/// Decodes tokens that arrive one by one. The returned texts together are the
/// text of all tokens, without special ones; each ends at the end of a
/// character.
class TextStream {
public:
  /// `before` has the tokens that precede the first one. Their text is not
  /// returned, but the first token's text may depend on them.
  explicit TextStream(const Tokenizer &tokenizer,
                      const std::vector<int32_t> &before = {});
  std::string add(const std::vector<int32_t> &more);
  /// Ends the stream. Returns the text that `add` has held back because its
  /// last character was incomplete.
  std::string finish();

private:
  std::string rest(const std::string &text);
  const Tokenizer &tokenizer;
  /// The newest tokens. The text of the first `shown` of them was returned
  /// already. These first tokens are kept because the text of a token may
  /// depend on the token before it.
  std::vector<int32_t> ids;
  size_t shown = 0;
};

/// Returns a tokenizer with one token per byte if `name` is "bytes". Otherwise
/// `name` is a directory with a tokenizer.json. Throws H0350 to H0353. With
/// `lowersCase` texts are converted to lower case first.
std::unique_ptr<Tokenizer> openTokenizer(const std::string &name,
                                         bool lowersCase = false);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_H
