//===- AddedTokens.cpp - Added tokens of a tokenizer ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AddedTokens.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::io;

AddedTokens::AddedTokens(const JsonValue &root, const TokenModel &model,
                         const Normalizer &normalizer) {
  const JsonValue *list = root.findNonNull("added_tokens");
  if (!list)
    return;
  std::vector<bool> areNormalized;
  for (const JsonValue &value : list->elements()) {
    const std::string &content = value.at("content").asString();
    int64_t id = value.at("id").asInteger();
    if (content.empty() || id < 0 || id >= maxVocabulary)
      value.fail("H0352", "an added token without text, or with a bad id",
                 "download the tokenizer again");
    bool isSpecial = value.boolOr("special", false);
    bool isNormalized = value.boolOr("normalized", !isSpecial);
    // A token that is also in the model's vocabulary keeps its id there.
    if (std::optional<int32_t> known = model.find(content))
      id = *known;
    areNormalized.push_back(isNormalized);
    tokens.push_back({content,
                      isNormalized ? normalizer({content}).text : content,
                      static_cast<int32_t>(id), value.boolOr("lstrip", false),
                      value.boolOr("rstrip", false),
                      value.boolOr("single_word", false), isSpecial});
    size = std::max(size, id + 1);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    byId[tokens[i].id] = &tokens[i];
    if (!tokens[i].pattern.empty())
      (areNormalized[i] ? normalized
                        : plain)[static_cast<uint8_t>(tokens[i].pattern[0])]
          .push_back(&tokens[i]);
  }
  for (Table *table : {&plain, &normalized})
    for (std::vector<const Token *> &row : *table)
      std::stable_sort(row.begin(), row.end(),
                       [](const Token *a, const Token *b) {
                         return a->pattern.size() > b->pattern.size();
                       });
}

/// Whether the character before or after a position belongs to a word.
static bool isWordBefore(const std::string &text, size_t end) {
  size_t begin = end;
  while (begin > 0 && (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80)
    ;
  return end > 0 && unicode::isWord(unicode::characterAt(text, begin).code);
}
static bool isWordAt(const std::string &text, size_t begin) {
  return begin < text.size() &&
         unicode::isWord(unicode::characterAt(text, begin).code);
}

/// Returns the beginning, at least `first`, of the white space that ends at
/// `end`.
static size_t beginOfSpace(const std::string &text, size_t first, size_t end) {
  size_t begin = end;
  while (begin > first) {
    size_t at = begin - 1;
    while (at > first && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80)
      --at;
    if (!unicode::isSpace(unicode::characterAt(text, at).code))
      break;
    begin = at;
  }
  return begin;
}
static size_t endOfSpace(const std::string &text, size_t end) {
  while (end < text.size()) {
    unicode::Character character = unicode::characterAt(text, end);
    if (!unicode::isSpace(character.code))
      break;
    end += character.length;
  }
  return end;
}

void AddedTokens::splitBy(const Table &table, const Segment &segment,
                          std::vector<Segment> &segments) const {
  const std::string &text = segment.piece.text;
  size_t done = 0, offset = 0;
  auto addBetween = [&](size_t end) {
    if (done < end)
      segments.push_back({segment.piece.part(done, end), -1});
  };
  while (offset < text.size()) {
    const std::vector<const Token *> &row =
        table[static_cast<uint8_t>(text[offset])];
    auto found = std::find_if(row.begin(), row.end(), [&](const Token *token) {
      return text.compare(offset, token->pattern.size(), token->pattern) == 0;
    });
    if (found == row.end()) {
      ++offset;
      continue;
    }
    const Token &token = **found;
    size_t begin = offset, end = offset + token.pattern.size();
    offset = end;
    if (token.isWord && (isWordBefore(text, begin) || isWordAt(text, end)))
      continue;
    // A token may itself be white space. Then this match may begin before
    // `done`, in white space that the previous token has stripped. The match
    // still becomes a token. Only if the token strips white space on its left,
    // the match begins at `done`, and is dropped if it then has no bytes.
    if (token.stripsLeft)
      begin = std::max(beginOfSpace(text, 0, begin), done);
    if (token.stripsRight)
      end = endOfSpace(text, end);
    if (begin >= end)
      continue;
    addBetween(begin);
    segments.push_back({segment.piece.part(begin, end), token.id});
    done = end;
  }
  addBetween(text.size());
}

std::vector<AddedTokens::Segment>
AddedTokens::split(const std::string &text,
                   const Normalizer &normalizer) const {
  std::vector<Segment> raw, segments;
  size_t head = text.empty() ? 0 : unicode::characterAt(text, 0).length;
  splitBy(plain, {{text, head}, -1}, raw);
  for (Segment &segment : raw) {
    if (segment.id >= 0) {
      segments.push_back(std::move(segment));
      continue;
    }
    segment.piece = normalizer(std::move(segment.piece));
    splitBy(normalized, segment, segments);
  }
  return segments;
}

const std::string *AddedTokens::tokenOf(int32_t id) const {
  auto it = byId.find(id);
  return it == byId.end() ? nullptr : &it->second->content;
}

bool AddedTokens::isSpecial(int32_t id) const {
  auto it = byId.find(id);
  return it != byId.end() && it->second->isSpecial;
}

std::optional<int32_t> AddedTokens::find(const std::string &content) const {
  for (const Token &token : tokens)
    if (token.content == content)
      return token.id;
  return std::nullopt;
}
