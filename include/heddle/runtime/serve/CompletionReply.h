//===- CompletionReply.h - What a client is answered ---------- -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H
#define HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/CompletionRequest.h"

namespace heddle::rt {

/// A text, or the part of one that is sent at once.
struct CompletionChoice {
  int64_t index = 0; ///< Which of the request's texts.
  std::string text;
  std::vector<int32_t> tokens;
  /// For each token itself and the likeliest, where they were asked for.
  std::vector<std::vector<TokenLogprob>> logprobs;
  std::vector<int64_t> offsets; ///< Of the same: characters of the text before.
  std::string finish;           ///< `stop` or `length`; empty: it goes on.
};

struct Usage {
  int64_t promptTokens = 0, newTokens = 0;
};

/// Writes the answers to one request as OpenAI's interface has them.
class CompletionReply {
public:
  /// Without a tokenizer tokens are written as numbers.
  CompletionReply(const CompletionRequest &request, std::string id,
                  std::string model, int64_t created,
                  const io::Tokenizer *tokenizer)
      : request(request), id(std::move(id)), model(std::move(model)),
        created(created), tokenizer(tokenizer) {}

  /// The body of an answer that comes at once.
  std::string whole(const std::vector<CompletionChoice> &texts,
                    const Usage &usage) const;
  /// One event of a stream. The first of a chat's text says who speaks.
  std::string chunk(const CompletionChoice &part, bool isFirst) const;
  std::string usageChunk(const Usage &usage) const;

private:
  using Json = nlohmann::ordered_json;
  Json frame(bool isChunk) const;
  Json choice(const CompletionChoice &part, bool isChunk) const;
  Json logprobsOf(const CompletionChoice &part) const;
  Json chatLogprob(const TokenLogprob &each) const;
  std::string nameOf(int32_t token) const;
  std::string wholeNameOf(int32_t token) const;

  const CompletionRequest &request;
  std::string id, model;
  int64_t created;
  const io::Tokenizer *tokenizer;
};

/// A line of server-sent events.
std::string serverSentEvent(const std::string &data);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H
