//===- TextPreparer.cpp - Texts to tokens for an encoder ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/TextPreparer.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

const std::string *TextPreparer::findPrompt(const std::string &name) const {
  if (name.empty())
    return &rules.defaultPrompt;
  auto found = rules.prompts.find(name);
  return found == rules.prompts.end() ? nullptr : &found->second;
}

std::string TextPreparer::promptNames() const {
  std::string names;
  for (const auto &[name, prompt] : rules.prompts)
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

EncoderText TextPreparer::prepare(const std::string &text,
                                  const std::string &prompt) const {
  EncoderText made;
  made.tokens = tokenizer->encodePrompt(prompt + text);
  if (prompt.empty())
    return made;
  // Count the prompt's tokens as sentence-transformers does: without the
  // closing special token.
  made.unpooled = int32_t(tokenizer->encodePrompt(prompt).size());
  if (!tokenizer->closingTokens().empty())
    --made.unpooled;
  return made;
}

bool TextPreparer::cut(EncoderText &text, int64_t most) const {
  Tokens &tokens = text.tokens;
  if (int64_t(tokens.size()) <= most)
    return false;
  Tokens opening, closing;
  if (tokenizer) {
    opening = tokenizer->openingTokens();
    closing = tokenizer->closingTokens();
  }
  if (!std::equal(opening.begin(), opening.end(), tokens.begin()))
    opening.clear();
  if (!std::equal(closing.rbegin(), closing.rend(), tokens.rbegin()))
    closing.clear();
  const int64_t around = int64_t(opening.size() + closing.size());
  const int64_t excess = int64_t(tokens.size()) - std::max(most, around);
  auto first = rules.cutsFront
                   ? tokens.begin() + int64_t(opening.size())
                   : tokens.end() - int64_t(closing.size()) - excess;
  tokens.erase(first, first + excess);
  tokens.resize(std::min<size_t>(tokens.size(), most));
  return true;
}
