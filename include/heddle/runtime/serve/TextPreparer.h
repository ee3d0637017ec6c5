//===- TextPreparer.h - Texts as an encoder reads them ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_TEXTPREPARER_H
#define HEDDLE_RUNTIME_SERVE_TEXTPREPARER_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Encoder.h"

#include <algorithm>
#include <map>
#include <string>

namespace heddle::rt {

/// What a model's makers do with a text before they encode it.
struct TextRules {
  /// What may be put before a text, by name, and what is if nobody names one.
  std::map<std::string, std::string> prompts;
  std::string defaultPrompt;
  int64_t maxTokens = 0;  ///< Longer texts are cut; 0: none is.
  bool cutsFront = false; ///< Of a text that is cut the end stays.

  /// Has texts cut that are longer than `tokens`.
  void cutAt(int64_t tokens) {
    maxTokens = maxTokens == 0 ? tokens : std::min(maxTokens, tokens);
  }
};

/// Makes tokens of texts, and cuts them.
class TextPreparer {
public:
  /// Without a tokenizer (null) it can only cut.
  TextPreparer(const io::Tokenizer *tokenizer, TextRules rules)
      : tokenizer(tokenizer), rules(std::move(rules)) {}

  bool hasTokenizer() const { return tokenizer != nullptr; }
  /// Where a text is cut if nobody says it; 0: nowhere.
  int64_t maxTokens() const { return rules.maxTokens; }
  /// The prompt of that name, or the default one for "". Null if there is none
  /// of the name.
  const std::string *findPrompt(const std::string &name) const;
  /// The names of all prompts, for messages.
  std::string promptNames() const;
  /// A text after a prompt, with special tokens around both; not cut.
  EncoderText prepare(const std::string &text, const std::string &prompt) const;
  /// Leaves at most `most` tokens. The special tokens that the tokenizer puts
  /// around a text stay, where the text has them. True if something was cut.
  bool cut(EncoderText &text, int64_t most) const;

private:
  const io::Tokenizer *tokenizer;
  TextRules rules;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_TEXTPREPARER_H
