//===- Stages.h - The stages of a tokenizer ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H

#include "Regex.h"
#include "Vocabulary.h"
#include <algorithm>
#include <functional>

namespace heddle::io {

// Encoding: a text is normalized, split into pieces, and a model gives each
// piece's tokens. Decoding: a chain of functions on the texts of tokens, whose
// results are joined. Each stage is made from its part of a tokenizer.json, and
// throws H0351 for what it does not know.

/// A part of a text.
struct TextPiece {
  std::string text;
  /// How many bytes at its front are made of the character that the whole text
  /// begins with: none where that is in another piece, or has been removed.
  size_t head = 0;
  /// What lies from one byte to another.
  TextPiece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin),
            std::max(std::min(head, end), begin) - begin};
  }
};
/// Puts a text before a piece. It counts as the piece's first character does.
void prepend(TextPiece &piece, const std::string &what);
/// `content` in place of each match. It counts as the match's last character.
TextPiece replace(const TextPiece &piece, const Regex &pattern,
                  const std::string &content);
/// Bytes as the characters of byte-level tokenizers.
TextPiece bytesAsCharacters(const TextPiece &piece);

using Normalizer = std::function<TextPiece(TextPiece)>;
Normalizer makeNormalizer(const JsonValue &value);
/// Puts a text into lower case before `next`.
Normalizer lowered(Normalizer next);
/// SentencePiece's table of replacements, in base 64, that a trie finds.
Normalizer makePrecompiled(const JsonValue &value);

using PreTokenizer = std::function<void(std::vector<TextPiece> &)>;
PreTokenizer makePreTokenizer(const JsonValue &value);

/// Gives pieces of text their tokens.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Appends the ids of one piece.
  virtual void encode(const std::string &piece,
                      std::vector<int32_t> &ids) const = 0;
  std::optional<int32_t> find(const std::string &token) const {
    return vocabulary.find(token);
  }
  /// The text of a token; "" where there is none.
  const std::string &tokenOf(int32_t id) const { return vocabulary[id]; }
  /// One more than the largest id.
  int64_t vocabSize() const { return vocabulary.size(); }

protected:
  /// Appends the tokens of bytes, if each has one.
  bool appendBytes(const std::string &text, std::vector<int32_t> &ids) const;

  Vocabulary vocabulary;
};
/// Throws H0352 for a damaged vocabulary.
std::unique_ptr<TokenModel> makeTokenModel(const JsonValue &value);
std::unique_ptr<TokenModel> makeBpeModel(const JsonValue &value);
std::unique_ptr<TokenModel> makeUnigramModel(const JsonValue &value);

/// Where special tokens go: before and behind a text.
struct SpecialTokens {
  std::vector<int32_t> before, behind;
};
SpecialTokens makePostProcessor(const JsonValue &value);

using Decoder =
    std::function<std::vector<std::string>(std::vector<std::string>)>;
Decoder makeDecoder(const JsonValue &value);

/// What each kind of stage is made by.
template <typename Stage>
using StageTable =
    std::vector<std::pair<const char *, Stage (*)(const JsonValue &)>>;

/// Makes the stage that `value` names with its `type`.
template <typename Stage>
Stage makeStage(const JsonValue &value, const char *what,
                const StageTable<Stage> &table) {
  const JsonValue &type = value.at("type");
  std::string known;
  for (const auto &[name, make] : table) {
    if (type.asString() == name)
      return make(value);
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  type.fail("H0351",
            "a " + std::string(what) + " of type " + type.asString() +
                " is not supported",
            "use `bytes`, or a tokenizer with one of " + known);
}

/// The pattern of a stage that has one: a text or a regular expression.
Regex patternOf(const JsonValue &value);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H
