//===- CompletionReply.h - Answers of completions ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes answers in the format of OpenAI's API: whole bodies, and events of a
// stream.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H
#define HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/CompletionRequest.h"

namespace heddle::rt {

/// One choice of an answer, or the chunk of a choice that one event of a stream
/// contains.
struct CompletionChoice {
  int64_t index = 0; ///< Index of the choice in the answer.
  std::string text;
  std::vector<int32_t> tokens;
  /// For each token: its log probability, then those of the likeliest tokens;
  /// empty if not requested.
  std::vector<std::vector<TokenLogprob>> logprobs;
  /// For each token with log probabilities: the number of characters before it.
  std::vector<int64_t> offsets;
  std::string finish; ///< `stop` or `length`; empty: not finished.
};

struct Usage {
  int64_t promptTokens = 0, newTokens = 0;
};

/// Writes the answers to one request in OpenAI's format.
class CompletionReply {
public:
  /// Without a tokenizer (null), tokens are written as decimal ids.
  CompletionReply(const CompletionRequest &request, std::string id,
                  std::string model, int64_t created,
                  const io::Tokenizer *tokenizer)
      : request(request), id(std::move(id)), model(std::move(model)),
        created(created), tokenizer(tokenizer) {}

  /// Returns the body of an answer that is not streamed.
  std::string whole(const std::vector<CompletionChoice> &texts,
                    const Usage &usage) const;
  /// Returns one event of a stream. In a chat, the first event has the
  /// assistant's role.
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

/// Formats one server-sent event.
std::string serverSentEvent(const std::string &data);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONREPLY_H
