//===- CompletionRequest.h - Requests of completions ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses requests to /v1/completions and /v1/chat/completions: the fields of
// OpenAI's API, and some that other servers have added to it.
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

/// The error with which a request is refused: an HTTP status and a JSON body.
/// It ends the request, not the server.
struct ApiError : std::exception {
  ApiError(int status, std::string code, std::string message,
           std::string field = "")
      : status(status), code(std::move(code)), message(std::move(message)),
        field(std::move(field)) {}
  const char *what() const noexcept override { return message.c_str(); }
  /// Returns the body of an error in OpenAI's API:
  /// {"error": {"message", "type", "param", "code"}}.
  std::string body() const;
  /// Returns why the request was refused, as the access log shows it.
  std::string reason() const { return code + ": " + message; }

  int status; ///< HTTP status.
  std::string code;
  std::string message;
  std::string field; ///< Field of the body that is wrong; empty: none.
};

/// A request of which every field has been checked.
struct CompletionRequest {
  /// A prompt, as text or as token ids.
  using Prompt = std::variant<std::string, std::vector<int32_t>>;

  bool isChat = false;
  std::string model;           ///< Empty: not given.
  std::vector<Prompt> prompts; ///< Prompts of a completion, at least one.
  /// The messages of a chat: an array of objects with `role` and `content` (a
  /// string or null). ChatTemplate::encodeChat turns them into tokens.
  nlohmann::ordered_json messages;
  int64_t count = 1;                ///< Choices for each prompt (`n`).
  std::optional<int64_t> maxTokens; ///< Limit of new tokens for each choice.
  SamplingOptions sampling; ///< Parameters of sampling, without `stream`.
  std::optional<uint64_t> seed;
  /// Number of likeliest tokens that are reported with each token; -1: none.
  int64_t logprobs = -1;
  std::vector<std::string> stops;
  bool echoes = false; ///< For completions: choices begin with the prompt.
  bool streams = false;
  bool includesUsage = false; ///< The last event of a stream has the usage.
  bool returnsTokenIds = false;
  bool ignoresEnd = false; ///< Whether generation continues after an end token.
  /// The client to which fair scheduling attributes the request. If empty, the
  /// peer's address identifies the client.
  std::string user;
  std::optional<double> timeout; ///< Seconds.

  /// Parses the body of a request. Throws an ApiError for a wrong field, and
  /// for a field of OpenAI's API that would change the answer and is not
  /// supported. Ignores unknown fields. `sampling` has the defaults of sampling
  /// parameters.
  static CompletionRequest read(const std::string &body, bool isChat,
                                const SamplingOptions &sampling);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONREQUEST_H
