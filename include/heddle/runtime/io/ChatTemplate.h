//===- ChatTemplate.h - Chat messages to prompts ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chat templates of models: renders the messages of a chat with the model's
// Jinja template, as transformers does, and tokenizes the result. Supports the
// part of Jinja that such templates use.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CHATTEMPLATE_H
#define HEDDLE_RUNTIME_IO_CHATTEMPLATE_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Tokenizer.h"

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace heddle::io {

/// Turns the messages of a chat into the text, or the tokens, of a prompt.
class ChatTemplate {
public:
  /// `source` is the template's text. `begin` says where the text begins, for
  /// error messages: at the beginning of a file, or at a string inside a file.
  /// Throws H0359 for a template that cannot be parsed.
  ChatTemplate(const std::string &source, SourceLocation begin);
  /// Returns the chat template of the model in a directory, from the file
  /// chat_template.jinja, or else from `chat_template` in
  /// tokenizer_config.json. Gives the model's special tokens (TokenNames.h) to
  /// the template as variables. Returns nothing if there is no template.
  static std::optional<ChatTemplate> find(const std::string &directory);

  /// Turns a chat into tokens: `messages` is an array of objects with a `role`
  /// and a `content`. The prompt ends where the assistant's answer begins.
  /// Both /v1/chat/completions and the verb `chat` call it.
  std::vector<int32_t> encodeChat(const nlohmann::ordered_json &messages,
                                  const Tokenizer &tokenizer) const;

  /// Renders the template to text. `variables` are `messages`, each with a
  /// `role` and a `content`, `add_generation_prompt` and others. Throws H0359
  /// for an error of the template.
  std::string render(const nlohmann::ordered_json &variables) const;

private:
  struct Program;
  std::shared_ptr<const Program> program;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CHATTEMPLATE_H
