//===- BpeModel.cpp - Byte-pair merging -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BpeModel.h"
#include <algorithm>
#include <queue>

using namespace heddle;
using namespace heddle::io;

/// The byte that a character of the byte-level alphabet stands for, or -1.
/// Printable bytes stand for themselves, the others for 256, 257 ... in order.
static int byteOfCharacter(uint32_t code) {
  static const std::vector<int> table = [] {
    std::vector<int> map(512, -1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 33 && byte <= 126) ||
                       (byte >= 161 && byte <= 172) || byte >= 174;
      map[printable ? byte : next++] = byte;
    }
    return map;
  }();
  return code < table.size() ? table[code] : -1;
}

/// The bytes that a token of the byte-level alphabet stands for; false when it
/// has other characters. All of the alphabet is one or two bytes of UTF-8.
static bool toBytes(const std::string &token, std::string &out) {
  out.clear();
  for (size_t i = 0; i < token.size(); ++i) {
    uint32_t code = static_cast<uint8_t>(token[i]);
    if (code >= 0x80) {
      if (code >= 0xE0 || i + 1 >= token.size())
        return false;
      code = (code & 0x1F) << 6 | (static_cast<uint8_t>(token[++i]) & 0x3F);
    }
    int byte = byteOfCharacter(code);
    if (byte < 0)
      return false;
    out += static_cast<char>(byte);
  }
  return true;
}

BpeModel::BpeModel(const JsonValue &model) {
  if (const JsonValue *dropout = model.findNonNull("dropout"))
    if (dropout->asNumber() != 0)
      dropout->fail("H0351", "a tokenizer with dropout is not supported",
                    "set it to null");
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.stringOr(key, "").empty())
      model.at(key).fail(
          "H0351", std::string("a tokenizer with ") + key + " is not supported",
          "use a byte-level tokenizer, as GPT-2's");
  if (model.boolOr("byte_fallback", false))
    model.at("byte_fallback")
        .fail("H0351", "a tokenizer with byte_fallback is not supported",
              "use a byte-level tokenizer, as GPT-2's");
  ignoreMerges = model.boolOr("ignore_merges", false);
  readVocab(model.at("vocab"));
  readMerges(model.at("merges"));
}

void BpeModel::readVocab(const JsonValue &vocab) {
  constexpr int64_t maxVocab = int64_t(1) << 24;
  std::string token;
  for (const JsonMember &member : vocab.members()) {
    int64_t id = member.value.asInteger();
    if (id < 0 || id >= maxVocab)
      member.value.fail("H0352",
                        "the token id " + std::to_string(id) +
                            " is not in [0, 16777216)",
                        "download the tokenizer again");
    // Tokens outside of the alphabet are special ones; no text encodes to them.
    if (!toBytes(member.key, token))
      token = member.key;
    else if (!ids.emplace(token, static_cast<int32_t>(id)).second)
      member.value.fail("H0352", "two tokens stand for the same bytes",
                        "download the tokenizer again");
    if (id >= vocabSize())
      bytes.resize(id + 1);
    if (!bytes[id].empty())
      member.value.fail("H0352",
                        "the id " + std::to_string(id) + " is given twice",
                        "download the tokenizer again");
    bytes[id] = token;
  }
  for (int byte = 0; byte < 256; ++byte) {
    auto it = ids.find(std::string(1, static_cast<char>(byte)));
    byteIds[byte] = it == ids.end() ? -1 : it->second;
  }
}

void BpeModel::addMerge(const JsonValue &at, const std::string &left,
                        const std::string &right, int32_t rank) {
  std::string leftBytes, rightBytes;
  if (toBytes(left, leftBytes) && toBytes(right, rightBytes)) {
    auto l = ids.find(leftBytes), r = ids.find(rightBytes),
         result = ids.find(leftBytes + rightBytes);
    if (l != ids.end() && r != ids.end() && result != ids.end()) {
      uint64_t key = uint64_t(l->second) << 32 | uint32_t(r->second);
      mergeTable.emplace(key, Merge{rank, result->second});
      return;
    }
  }
  at.fail("H0352",
          "a merge of \"" + left + "\" and \"" + right +
              "\", which are not both in the vocabulary, or their union is not",
          "download the tokenizer again");
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

const std::string *BpeModel::bytesOf(int32_t id) const {
  return id >= 0 && id < vocabSize() ? &bytes[id] : nullptr;
}

const BpeModel::Merge *BpeModel::findMerge(int32_t left, int32_t right) const {
  auto it = mergeTable.find(uint64_t(left) << 32 | uint32_t(right));
  return it == mergeTable.end() ? nullptr : &it->second;
}

/// Applies the merge of lowest rank, leftmost first, until none is left.
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

void BpeModel::encode(const std::string &piece,
                      std::vector<int32_t> &out) const {
  if (ignoreMerges) {
    auto it = ids.find(piece);
    if (it != ids.end()) {
      out.push_back(it->second);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  for (char c : piece) {
    int32_t id = byteIds[static_cast<uint8_t>(c)];
    if (id < 0)
      fail("H0353",
           "the byte " + std::to_string(static_cast<uint8_t>(c)) +
               " has no token in this tokenizer",
           "use a byte-level tokenizer with all 256 bytes");
    symbols.push_back(id);
  }
  merge(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}
