//===- ChatTemplate.h - Conversations as texts ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of Jinja that the chat templates of models use, rendered as
// transformers renders it.
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
  /// Throws H0359 for a template that cannot be read. `begin` is the file that
  /// it is, or where it begins in a file of something else.
  ChatTemplate(const std::string &source, SourceLocation begin);
  /// The template of the model in a directory: chat_template.jinja, or what
  /// tokenizer_config.json has, with the model's special tokens (TokenNames.h).
  /// Nothing where there is none.
  static std::optional<ChatTemplate> find(const std::string &directory);

  /// Turns a chat into tokens: `messages` is an array of objects with a `role`
  /// and a `content`. The prompt ends where the assistant's answer begins.
  /// Both /v1/chat/completions and the verb `chat` call it.
  std::vector<int32_t> encodeChat(const nlohmann::ordered_json &messages,
                                  const Tokenizer &tokenizer) const;

  /// The text of `variables`: `messages`, each with a `role` and a `content`,
  /// `add_generation_prompt` ... Throws H0359 for what the template refuses.
  std::string render(const nlohmann::ordered_json &variables) const;

private:
  struct Program;
  std::shared_ptr<const Program> program;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CHATTEMPLATE_H
