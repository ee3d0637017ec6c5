//===- WordModels.cpp - WordPiece and word-level models -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The models "WordPiece" and "WordLevel" of tokenizer.json, and the choice
// between all models.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::io;

bool TokenModel::appendBytes(const std::string &text,
                             std::vector<int32_t> &ids) const {
  std::vector<int32_t> bytes;
  for (char c : text)
    if (std::optional<int32_t> id =
            vocabulary.find(byteToken(static_cast<uint8_t>(c))))
      bytes.push_back(*id);
  if (bytes.size() != text.size())
    return false;
  ids.insert(ids.end(), bytes.begin(), bytes.end());
  return true;
}

namespace {

/// A model with a vocabulary and a token for unknown words.
class WordModel : public TokenModel {
public:
  explicit WordModel(const JsonValue &value) {
    vocabulary.read(value.at("vocab"));
    const JsonValue &token = value.at("unk_token");
    std::optional<int32_t> found = vocabulary.find(token.asString());
    if (!found)
      token.fail("H0352", "the unknown token is not in the vocabulary",
                 "download the tokenizer again");
    unknown = *found;
  }

protected:
  int32_t unknown;
};

class WordLevelModel final : public WordModel {
public:
  using WordModel::WordModel;
  void encode(const std::string &piece,
              std::vector<int32_t> &ids) const override {
    ids.push_back(vocabulary.find(piece).value_or(unknown));
  }
};

/// WordPiece (Devlin et al., 2018): takes the longest token at the beginning of
/// the word, and then repeatedly the longest token that continues the word. The
/// vocabulary marks continuing tokens with a prefix, such as ##.
class WordPieceModel final : public WordModel {
public:
  explicit WordPieceModel(const JsonValue &value)
      : WordModel(value),
        prefix(value.stringOr("continuing_subword_prefix", "##")),
        longest(value.integerOr("max_input_chars_per_word", 100)) {}

  void encode(const std::string &piece,
              std::vector<int32_t> &ids) const override {
    // End of each character.
    std::vector<size_t> ends;
    unicode::forEach(piece, [&](unicode::Character character, size_t offset) {
      ends.push_back(offset + character.length);
    });
    size_t known = ids.size(), begin = 0;
    bool isKnown = static_cast<int64_t>(ends.size()) <= longest;
    while (isKnown && begin < piece.size()) {
      size_t last = ends.size();
      std::optional<int32_t> id;
      while (!id && last > 0 && ends[last - 1] > begin) {
        std::string token = piece.substr(begin, ends[last - 1] - begin);
        id = vocabulary.find(begin == 0 ? token : prefix + token);
        --last;
      }
      isKnown = id.has_value();
      if (isKnown) {
        ids.push_back(*id);
        begin = ends[last];
      }
    }
    if (!isKnown) {
      ids.resize(known);
      ids.push_back(unknown);
    }
  }

private:
  std::string prefix;
  int64_t longest;
};

} // namespace

std::unique_ptr<TokenModel> io::makeTokenModel(const JsonValue &value) {
  using Made = std::unique_ptr<TokenModel>;
  static const StageTable<Made> table = {
      {"BPE", makeBpeModel},
      {"Unigram", makeUnigramModel},
      {"WordPiece",
       [](const JsonValue &v) -> Made {
         return std::make_unique<WordPieceModel>(v);
       }},
      {"WordLevel", [](const JsonValue &v) -> Made {
         return std::make_unique<WordLevelModel>(v);
       }}};
  // A tokenizer.json of an older version omits the type of the model "BPE".
  return value.find("type") ? makeStage<Made>(value, "model", table)
                            : makeBpeModel(value);
}
