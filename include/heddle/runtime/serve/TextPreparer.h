//===- TextPreparer.h - Texts to tokens for an encoder ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns a text into the tokens of an encoder: the model's prompt before it,
// special tokens around it, and truncation.
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

/// How a model of embeddings wants its texts prepared (from its
/// sentence-transformers files).
struct TextRules {
  /// Prompts that may be put before a text, by name. `defaultPrompt` is the
  /// name of the prompt that is used if a request names none.
  std::map<std::string, std::string> prompts;
  std::string defaultPrompt;
  int64_t maxTokens = 0;  ///< Texts are cut to this many tokens; 0: not cut.
  bool cutsFront = false; ///< Truncate at the front instead of at the end.

  /// Lowers the limit to `tokens`.
  void cutAt(int64_t tokens) {
    maxTokens = maxTokens == 0 ? tokens : std::min(maxTokens, tokens);
  }
};

/// Tokenizes and truncates texts.
class TextPreparer {
public:
  /// `tokenizer` may be null; then only `cut` may be called.
  TextPreparer(const io::Tokenizer *tokenizer, TextRules rules)
      : tokenizer(tokenizer), rules(std::move(rules)) {}

  bool hasTokenizer() const { return tokenizer != nullptr; }
  /// The number of tokens to which a text, with its prompt and special tokens,
  /// is truncated if a request asks for no other number; 0: not truncated.
  int64_t maxTokens() const { return rules.maxTokens; }
  /// Returns the text of the prompt with the name `name`, or of the default
  /// prompt if `name` is "". Null if there is no prompt with this name.
  const std::string *findPrompt(const std::string &name) const;
  /// Returns the names of all prompts (such as "query"), separated by commas,
  /// for error messages.
  std::string promptNames() const;
  /// Returns the tokens of the prompt followed by the text, with special tokens
  /// at the beginning and end. Does not truncate.
  EncoderText prepare(const std::string &text, const std::string &prompt) const;
  /// Truncates to at most `most` tokens, but keeps the special tokens around
  /// the text. Returns true if anything was removed.
  bool cut(EncoderText &text, int64_t most) const;

private:
  const io::Tokenizer *tokenizer;
  TextRules rules;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_TEXTPREPARER_H
