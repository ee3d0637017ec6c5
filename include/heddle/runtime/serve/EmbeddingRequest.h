//===- EmbeddingRequest.h - Parse requests for embeddings -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_EMBEDDINGREQUEST_H
#define HEDDLE_RUNTIME_SERVE_EMBEDDINGREQUEST_H

#include "heddle/runtime/serve/CompletionRequest.h"

namespace heddle::rt {

/// The body of a request to /v1/embeddings, with OpenAI's fields.
struct EmbeddingRequest {
  std::string model;                             ///< Empty: not given.
  std::vector<CompletionRequest::Prompt> inputs; ///< At least one.
  bool isBase64 = false; ///< Answer with little-endian f32 in base64.
  std::optional<int64_t> dimensions;
  /// Name of the model's prompt to put before each text; empty: its default
  /// prompt.
  std::string promptName;
  /// Limit of tokens of a text; -1: the model's; none: the server's default.
  std::optional<int64_t> truncateTokens;
  std::optional<double> timeout; ///< Seconds.

  /// Parses a body; throws an ApiError with code H0380.
  static EmbeddingRequest read(const std::string &body);
};

/// Returns the body of the answer, for embeddings of `width` elements,
/// contiguous in memory.
std::string embeddingReply(const EmbeddingRequest &request,
                           const std::string &model,
                           const std::vector<float> &embeddings, int64_t width,
                           int64_t tokens);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_EMBEDDINGREQUEST_H
