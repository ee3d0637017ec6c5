//===- CompletionRequest.h - What a client asks for ----------- -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bodies of requests to /v1/completions and /v1/chat/completions, with the
// fields of OpenAI's interface, and some that other servers have added to it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_COMPLETIONREQUEST_H
#define HEDDLE_RUNTIME_SERVE_COMPLETIONREQUEST_H

#include "heddle/runtime/serve/Sampler.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::rt {

/// Why a request is refused; the server goes on.
struct ApiError : std::exception {
  ApiError(int status, std::string code, std::string message,
           std::string field = "")
      : status(status), code(std::move(code)), message(std::move(message)),
        field(std::move(field)) {}
  const char *what() const noexcept override { return message.c_str(); }
  /// {"error": {"message", "type", "param", "code"}}, as OpenAI writes it.
  std::string body() const;
  /// As an access log has it.
  std::string reason() const { return code + ": " + message; }

  int status; ///< Of HTTP.
  std::string code;
  std::string message;
  std::string field; ///< Of the body; empty: none.
};

/// A request, of which every field is in its range.
struct CompletionRequest {
  /// A text, or tokens.
  using Prompt = std::variant<std::string, std::vector<int32_t>>;

  bool isChat = false;
  std::string model;           ///< Empty: not named.
  std::vector<Prompt> prompts; ///< Of a completion: at least one.
  /// Of a chat: an array of objects with `role` and `content`, a text or null.
  nlohmann::ordered_json messages;
  int64_t count = 1;                ///< Texts for each prompt.
  std::optional<int64_t> maxTokens; ///< Of each text.
  SamplingOptions sampling;         ///< Without `stream`.
  std::optional<uint64_t> seed;
  int64_t logprobs = -1; ///< Likeliest tokens told with each; -1: none.
  std::vector<std::string> stops;
  bool echoes = false; ///< Of completions: texts begin with their prompts.
  bool streams = false;
  bool includesUsage = false; ///< Of a stream: says the counts at its end.
  bool returnsTokenIds = false;
  bool ignoresEnd = false;       ///< Goes on after an end token.
  std::string user;              ///< Whose turn it is; empty: the connection's.
  std::optional<double> timeout; ///< Seconds.

  /// Reads a body; throws ApiError. Unknown fields are not looked at, those
  /// that would change the answer and are not supported are refused. `sampling`
  /// is what holds where the body does not say it.
  static CompletionRequest read(const std::string &body, bool isChat,
                                const SamplingOptions &sampling);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONREQUEST_H
