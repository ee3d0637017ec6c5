//===- Stages.h - The stages of a tokenizer ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of a tokenizer, and the functions that create a stage from its
// section of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H

#include "Regex.h"
#include "Vocabulary.h"
#include <algorithm>
#include <functional>

namespace heddle::io {

// Encoding: a text is normalized and split into pieces, and a model turns each
// piece into tokens. Decoding: a chain of functions transforms the texts of
// tokens, which are then joined. Each stage is created from its section of a
// tokenizer.json, and throws H0351 for an unsupported type.

/// A piece of the text that is encoded.
struct TextPiece {
  std::string text;
  /// How many bytes at the beginning of the piece come from the first character
  /// of the whole text. 0 if that character is in another piece or was removed.
  size_t head = 0;
  /// Returns the bytes [begin, end).
  TextPiece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin),
            std::max(std::min(head, end), begin) - begin};
  }
};
/// Inserts the text `what` before a piece. If the piece begins with the first
/// character of the whole text, the inserted bytes count as part of that
/// character (TextPiece::head).
void prepend(TextPiece &piece, const std::string &what);
/// Replaces each match of `pattern` by `content`. If a match is within the
/// first character of the whole text, the bytes of `content` count as part of
/// that character (TextPiece::head).
TextPiece replace(const TextPiece &piece, const Regex &pattern,
                  const std::string &content);
/// Replaces bytes by the characters that represent them in byte-level
/// tokenizers.
TextPiece bytesAsCharacters(const TextPiece &piece);

using Normalizer = std::function<TextPiece(TextPiece)>;
Normalizer makeNormalizer(const JsonValue &value);
/// Returns a normalizer that converts to lower case before `next`.
Normalizer lowered(Normalizer next);
/// Creates SentencePiece's normalizer from its table (base64), a trie of
/// replacements.
Normalizer makePrecompiled(const JsonValue &value);

using PreTokenizer = std::function<void(std::vector<TextPiece> &)>;
PreTokenizer makePreTokenizer(const JsonValue &value);

/// Turns pieces of text into tokens.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a piece.
  virtual void encode(const std::string &piece,
                      std::vector<int32_t> &ids) const = 0;
  std::optional<int32_t> find(const std::string &token) const {
    return vocabulary.find(token);
  }
  /// Returns the text of a token; "" if it does not exist.
  const std::string &tokenOf(int32_t id) const { return vocabulary[id]; }
  /// Returns one more than the largest id.
  int64_t vocabSize() const { return vocabulary.size(); }

protected:
  /// Appends, for each byte of `text`, the token that represents this byte. If
  /// a byte has no such token, appends nothing and returns false.
  bool appendBytes(const std::string &text, std::vector<int32_t> &ids) const;

  Vocabulary vocabulary;
};
/// Throws H0352 for an invalid vocabulary.
std::unique_ptr<TokenModel> makeTokenModel(const JsonValue &value);
std::unique_ptr<TokenModel> makeBpeModel(const JsonValue &value);
std::unique_ptr<TokenModel> makeUnigramModel(const JsonValue &value);

/// Special tokens before and after a text.
struct SpecialTokens {
  std::vector<int32_t> before, after;
};
SpecialTokens makePostProcessor(const JsonValue &value);

using Decoder =
    std::function<std::vector<std::string>(std::vector<std::string>)>;
Decoder makeDecoder(const JsonValue &value);

/// For each type of a stage, its name in tokenizer.json and the function that
/// creates the stage.
template <typename Stage>
using StageTable =
    std::vector<std::pair<const char *, Stage (*)(const JsonValue &)>>;

/// Creates a stage from `value`, the stage's JSON object in tokenizer.json. The
/// object's member `type` names an entry of `table`.
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

/// Returns the pattern of a stage: a plain text or a regular expression.
Regex patternOf(const JsonValue &value);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_STAGES_H
