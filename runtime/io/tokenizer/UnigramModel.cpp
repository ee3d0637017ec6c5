//===- UnigramModel.cpp - The unigram language model ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model "Unigram" of tokenizer.json, as SentencePiece trains it.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace heddle;
using namespace heddle::io;

namespace {

/// Tokens with log probabilities. A piece is split into the tokens whose log
/// probabilities have the largest sum (Kudo, arXiv 1804.10959). Viterbi's
/// algorithm finds these tokens.
class UnigramModel final : public TokenModel {
public:
  explicit UnigramModel(const JsonValue &value);
  void encode(const std::string &piece,
              std::vector<int32_t> &ids) const override;

private:
  /// The best segmentation of a prefix of the piece.
  struct BestPath {
    double score = 0;
    size_t begin = none; ///< Where the last token of the segmentation begins.
    bool isUnknown = false;
  };
  static constexpr size_t none = std::numeric_limits<size_t>::max();
  std::vector<BestPath> bestPaths(const std::string &piece) const;
  void addUnknown(const std::string &text, std::vector<int32_t> &ids) const;

  std::vector<double> scores;
  std::vector<size_t> lengths; ///< Lengths that tokens have, sorted.
  std::optional<int32_t> unknown;
  double unknownScore;
  bool fallsBack;
};

} // namespace

/// Converts a score as the package `tokenizers` reads it: the digits as an
/// integer, divided by a power of ten. This may round twice. A score that is
/// rounded only once may differ in the last bit, which can decide between two
/// segmentations of almost equal score.
static double scoreOf(double number) {
  char text[32];
  char *end = std::to_chars(text, text + sizeof text, std::fabs(number),
                            std::chars_format::scientific)
                  .ptr;
  char *mark = std::find(text, end, 'e');
  uint64_t digits = 0;
  int exponent = 0;
  if (mark == end) // Infinity or NaN.
    return number;
  std::from_chars(mark + 1 + (mark[1] == '+'), end, exponent);
  for (char *c = text; c < mark; ++c)
    if (*c != '.')
      digits = 10 * digits + static_cast<uint64_t>(*c - '0');
  exponent -= mark - text > 1 ? static_cast<int>(mark - text) - 2 : 0;
  auto whole = static_cast<double>(digits);
  double power = std::pow(10.0, std::abs(exponent));
  return std::copysign(exponent < 0 ? whole / power : whole * power, number);
}

UnigramModel::UnigramModel(const JsonValue &value)
    : fallsBack(value.boolOr("byte_fallback", false)) {
  double lowest = 0;
  for (const JsonValue &entry : value.at("vocab").elements()) {
    if (!entry.isArray() || entry.elements().size() != 2)
      entry.failType("a token and its score");
    const std::string &token = entry.elements()[0].asString();
    vocabulary.add(entry, token, vocabulary.size());
    scores.push_back(scoreOf(entry.elements()[1].asNumber()));
    lowest = scores.size() == 1 ? scores[0] : std::min(lowest, scores.back());
    lengths.push_back(token.size());
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  constexpr double penalty = 10; // SentencePiece's penalty of an unknown token.
  unknownScore = lowest - penalty;
  if (const JsonValue *id = value.findNonNull("unk_id")) {
    unknown = static_cast<int32_t>(id->asInteger());
    if (id->asInteger() < 0 || id->asInteger() >= vocabulary.size())
      id->fail("H0352", "the unknown token is not in the vocabulary",
               "download the tokenizer again");
  }
}

std::vector<UnigramModel::BestPath>
UnigramModel::bestPaths(const std::string &piece) const {
  std::vector<BestPath> paths(piece.size() + 1);
  auto offer = [&](size_t begin, size_t end, double score, bool isUnknown) {
    double sum = paths[begin].score + score;
    BestPath &path = paths[end];
    if (path.begin == none || sum > path.score)
      path = {sum, begin, isUnknown};
  };
  unicode::forEach(piece, [&](unicode::Character character, size_t begin) {
    bool hasOne = false;
    for (size_t length : lengths) {
      if (length > piece.size() - begin)
        break;
      std::optional<int32_t> id = vocabulary.find(piece.substr(begin, length));
      if (!id)
        continue;
      offer(begin, begin + length, scores[*id], id == unknown);
      hasOne |= length == character.length;
    }
    if (!hasOne)
      offer(begin, begin + character.length, unknownScore, true);
  });
  return paths;
}

void UnigramModel::addUnknown(const std::string &text,
                              std::vector<int32_t> &ids) const {
  if (fallsBack && appendBytes(text, ids))
    return;
  if (!unknown)
    fail("H0353", "\"" + text + "\" has no token in this tokenizer",
         "use a tokenizer with an unknown token, or leave it out");
  ids.push_back(*unknown);
}

void UnigramModel::encode(const std::string &piece,
                          std::vector<int32_t> &ids) const {
  std::vector<BestPath> paths = bestPaths(piece);
  // Tokens from last to first; adjacent unknown ones are merged.
  std::vector<Span> tokens;
  for (size_t end = piece.size(); end > 0; end = paths[end].begin) {
    const BestPath &path = paths[end];
    if (path.isUnknown && !tokens.empty() && tokens.back().isMatch)
      tokens.back().begin = path.begin;
    else
      tokens.push_back({path.begin, end, path.isUnknown});
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    std::string text = piece.substr(token->begin, token->end - token->begin);
    if (std::optional<int32_t> id = vocabulary.find(text))
      ids.push_back(*id);
    else
      addUnknown(text, ids);
  }
}

std::unique_ptr<TokenModel> io::makeUnigramModel(const JsonValue &value) {
  return std::make_unique<UnigramModel>(value);
}
