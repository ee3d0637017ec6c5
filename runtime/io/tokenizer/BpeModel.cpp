//===- BpeModel.cpp - Byte-pair encoding ----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model "BPE" of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <queue>

using namespace heddle;
using namespace heddle::io;

namespace {

/// Byte-pair encoding (Sennrich et al., arXiv 1508.07909): merges characters to
/// tokens in the order in which merges were learned. Characters are those of
/// the text, or represent its bytes.
class BpeModel final : public TokenModel {
public:
  explicit BpeModel(const JsonValue &model);
  void encode(const std::string &piece,
              std::vector<int32_t> &ids) const override;

private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  void readMerges(const JsonValue &merges);
  void addMerge(const JsonValue &at, const std::string &left,
                const std::string &right, int32_t rank);
  const Merge *findMerge(int32_t left, int32_t right) const;
  std::string textOf(const std::string &piece, size_t begin,
                     size_t length) const;
  /// Returns the token of a character, or -1.
  int32_t findCharacter(const std::string &piece, size_t begin,
                        unicode::Character character) const;
  void merge(std::vector<int32_t> &symbols) const;

  std::unordered_map<uint64_t, Merge> mergeTable;
  /// The tokens of characters with small code points, by code point, so that
  /// frequent characters need no search in the vocabulary. The characters that
  /// represent bytes are among them.
  std::vector<int32_t> characters;
  std::string prefix, suffix;
  std::optional<int32_t> unknown;
  bool ignoresMerges, fallsBack, fusesUnknown;
};

} // namespace

BpeModel::BpeModel(const JsonValue &model)
    : prefix(model.stringOr("continuing_subword_prefix", "")),
      suffix(model.stringOr("end_of_word_suffix", "")),
      ignoresMerges(model.boolOr("ignore_merges", false)),
      fallsBack(model.boolOr("byte_fallback", false)),
      fusesUnknown(model.boolOr("fuse_unk", false)) {
  if (const JsonValue *dropout = model.findNonNull("dropout"))
    if (dropout->asNumber() != 0)
      dropout->fail("H0351", "a tokenizer with dropout is not supported",
                    "set it to null");
  vocabulary.read(model.at("vocab"));
  if (const JsonValue *token = model.findNonNull("unk_token")) {
    unknown = vocabulary.find(token->asString());
    if (!unknown && !token->asString().empty())
      token->fail("H0352", "the unknown token is not in the vocabulary",
                  "download the tokenizer again");
  }
  constexpr uint32_t numCharacters = 512;
  for (uint32_t code = 0; code < numCharacters; ++code) {
    std::string text;
    unicode::append(text, code);
    characters.push_back(vocabulary.find(text).value_or(-1));
  }
  readMerges(model.at("merges"));
}

void BpeModel::addMerge(const JsonValue &at, const std::string &left,
                        const std::string &right, int32_t rank) {
  std::string rest = right;
  if (!prefix.empty() && rest.compare(0, prefix.size(), prefix) == 0)
    rest.erase(0, prefix.size());
  std::optional<int32_t> l = vocabulary.find(left), r = vocabulary.find(right),
                         result = vocabulary.find(left + rest);
  if (!l || !r || !result)
    at.fail("H0352",
            "a merge of \"" + left + "\" and \"" + right +
                "\", which are not both in the vocabulary, or their union is "
                "not",
            "download the tokenizer again");
  uint64_t key = uint64_t(*l) << 32 | uint32_t(*r);
  mergeTable.emplace(key, Merge{rank, *result});
}

void BpeModel::readMerges(const JsonValue &merges) {
  int32_t rank = 0;
  for (const JsonValue &entry : merges.elements()) {
    if (entry.isArray()) {
      if (entry.elements().size() != 2)
        entry.failType("a pair of tokens");
      addMerge(entry, entry.elements()[0].asString(),
               entry.elements()[1].asString(), rank++);
      continue;
    }
    const std::string &text = entry.asString();
    size_t space = text.find(' ');
    if (space == std::string::npos)
      entry.failType("two tokens with a space between");
    addMerge(entry, text.substr(0, space), text.substr(space + 1), rank++);
  }
}

const BpeModel::Merge *BpeModel::findMerge(int32_t left, int32_t right) const {
  auto it = mergeTable.find(uint64_t(left) << 32 | uint32_t(right));
  return it == mergeTable.end() ? nullptr : &it->second;
}

/// Applies the merge of lowest rank, leftmost first, until no merge is
/// possible.
void BpeModel::merge(std::vector<int32_t> &symbols) const {
  struct Candidate {
    int32_t rank, position, left, right, result;
    bool operator<(const Candidate &other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  int32_t size = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> next(size), previous(size);
  std::priority_queue<Candidate> queue;
  auto consider = [&](int32_t position) {
    if (position < 0 || next[position] >= size)
      return;
    int32_t left = symbols[position], right = symbols[next[position]];
    if (const Merge *found = findMerge(left, right))
      queue.push({found->rank, position, left, right, found->result});
  };
  for (int32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (int32_t i = 0; i < size; ++i)
    consider(i);
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    int32_t right = next[best.position];
    if (symbols[best.position] != best.left || right >= size ||
        symbols[right] != best.right)
      continue;
    symbols[best.position] = best.result;
    symbols[right] = -1;
    next[best.position] = next[right];
    if (next[right] < size)
      previous[next[right]] = best.position;
    consider(previous[best.position]);
    consider(best.position);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), -1), symbols.end());
}

/// Returns the character at `begin` as the vocabulary writes it: with `prefix`
/// before it unless it begins the word, and with `suffix` after it if it ends
/// the word.
std::string BpeModel::textOf(const std::string &piece, size_t begin,
                             size_t length) const {
  return (begin > 0 ? prefix : "") + piece.substr(begin, length) +
         (begin + length == piece.size() ? suffix : "");
}

int32_t BpeModel::findCharacter(const std::string &piece, size_t begin,
                                unicode::Character character) const {
  bool isPlain = (begin == 0 || prefix.empty()) &&
                 (begin + character.length != piece.size() || suffix.empty());
  if (isPlain && character.code < characters.size())
    return characters[character.code];
  return vocabulary.find(textOf(piece, begin, character.length)).value_or(-1);
}

void BpeModel::encode(const std::string &piece,
                      std::vector<int32_t> &out) const {
  if (ignoresMerges) {
    if (std::optional<int32_t> id = vocabulary.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  // Whether the unknown token of an earlier character is still to be written.
  // As in the package `tokenizers`, it is written before the next known token.
  // Tokens of single bytes may be written in between.
  bool isWaiting = false;
  unicode::forEach(piece, [&](unicode::Character character, size_t begin) {
    int32_t id = findCharacter(piece, begin, character);
    if (id < 0 && fallsBack &&
        appendBytes(textOf(piece, begin, character.length), symbols))
      return;
    // Without an unknown token, drop the character, as the package `tokenizers`
    // does.
    if (id < 0 && !unknown)
      return;
    if (isWaiting && (id >= 0 || !fusesUnknown))
      symbols.push_back(*unknown);
    isWaiting = id < 0;
    if (id >= 0)
      symbols.push_back(id);
  });
  if (isWaiting)
    symbols.push_back(*unknown);
  merge(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

std::unique_ptr<TokenModel> io::makeBpeModel(const JsonValue &value) {
  return std::make_unique<BpeModel>(value);
}
