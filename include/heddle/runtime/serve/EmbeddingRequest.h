//===- EmbeddingRequest.h - What a client wants encoded ---------*- C++ -*-===//
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
  std::string model;                             ///< Empty: not named.
  std::vector<CompletionRequest::Prompt> inputs; ///< At least one.
  bool isBase64 = false; ///< Embeddings are little-endian f32 in base64.
  std::optional<int64_t> dimensions;
  std::string promptName; ///< What is put before texts; empty: the default.
  /// Tokens that stay of a text; -1: as many as the model takes. None: as the
  /// server does.
  std::optional<int64_t> truncateTokens;
  std::optional<double> timeout; ///< Seconds.

  /// Throws an ApiError with the code H0380.
  static EmbeddingRequest read(const std::string &body);
};

/// The body of the answer: embeddings of `width` elements, one after the other.
std::string embeddingReply(const EmbeddingRequest &request,
                           const std::string &model,
                           const std::vector<float> &embeddings, int64_t width,
                           int64_t tokens);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_EMBEDDINGREQUEST_H
