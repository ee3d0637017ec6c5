//===- EmbeddingService.cpp - Serve embeddings ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers /v1/embeddings: turns texts into tokens, lets EmbeddingLoop encode
// them, and sends the embeddings.
//
//===----------------------------------------------------------------------===//

#include "EmbeddingLoop.h"
#include "ServiceFront.h"
#include "heddle/runtime/serve/EmbeddingRequest.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A request that is being answered. Used on the server's thread.
struct Active {
  EmbeddingRequest request;
  std::shared_ptr<HttpReply> http;
  std::string path;
  std::vector<uint64_t> ids; ///< Ids of the request's texts.
  std::vector<float> embeddings;
  int64_t tokens = 0;
  size_t left = 0; ///< Number of texts whose embedding is not there yet.
};

class EmbeddingService final : public ServiceFront {
public:
  EmbeddingService(Encoder &encoder, TextPreparer texts,
                   const ServiceOptions &options)
      : ServiceFront(options), limits(encoder.limits()),
        preparer(std::move(texts)),
        loop(encoder, metrics, [this](std::vector<EmbeddingEvent> events) {
          server.post([this, events = std::move(events)] {
            for (const EmbeddingEvent &event : events)
              take(event);
          });
        }) {}
  ~EmbeddingService() override { stop(); }

private:
  std::vector<std::string> paths() const override { return {"/v1/embeddings"}; }
  Answer read(const HttpRequest &http) override;
  int64_t longest() const override { return limits.maxTokens; }
  bool isDraining() const override { return loop.isDraining(); }
  int work(const std::function<int()> &stopSignal) override {
    return loop.run(stopSignal);
  }
  void failAll(const ApiError &error) override;

  std::vector<EncoderText> textsOf(const EmbeddingRequest &request) const;
  int64_t cutAt(const EmbeddingRequest &request) const;
  /// Starts to answer a request. Called on the server's thread, after `read`
  /// has parsed the request.
  void begin(const std::shared_ptr<Active> &made,
             const std::vector<EncoderText> &texts, const Reply &reply);
  void take(const EmbeddingEvent &event);
  void fail(const std::shared_ptr<Active> &active, const ApiError &error);
  void forget(const Active &active);

  const EncoderLimits limits;
  const TextPreparer preparer;
  /// Requests by the id of a text, with the text's index in the request.
  std::unordered_map<uint64_t, std::pair<std::shared_ptr<Active>, size_t>>
      active;
  uint64_t lastId = 0;
  EmbeddingLoop loop;
};

} // namespace

/// Returns the number of tokens to which a text is truncated; 0: not at all.
int64_t EmbeddingService::cutAt(const EmbeddingRequest &request) const {
  if (!request.truncateTokens)
    return preparer.maxTokens();
  if (*request.truncateTokens > limits.maxTokens)
    throw ApiError(
        400, "H0380",
        "truncate_prompt_tokens is " + std::to_string(*request.truncateTokens) +
            "; a text can have " + std::to_string(limits.maxTokens) + " tokens",
        "truncate_prompt_tokens");
  if (*request.truncateTokens > 0)
    return *request.truncateTokens;
  const int64_t own = preparer.maxTokens();
  return own > 0 ? std::min(own, limits.maxTokens) : limits.maxTokens;
}

std::vector<EncoderText>
EmbeddingService::textsOf(const EmbeddingRequest &request) const {
  if (request.dimensions.value_or(limits.width) != limits.width)
    throw ApiError(400, "H0380",
                   "dimensions other than the model's " +
                       std::to_string(limits.width) + " are not supported",
                   "dimensions");
  const std::string *prompt = preparer.findPrompt(request.promptName);
  if (!prompt)
    throw ApiError(400, "H0380",
                   "the model has no prompt " + request.promptName +
                       (preparer.promptNames().empty()
                            ? ""
                            : ", only " + preparer.promptNames()),
                   "prompt_name");
  const int64_t most = cutAt(request);
  std::vector<EncoderText> texts;
  for (const CompletionRequest::Prompt &input : request.inputs) {
    EncoderText text;
    auto *words = std::get_if<std::string>(&input);
    if (words && preparer.hasTokenizer()) {
      text = preparer.prepare(*words, *prompt);
      checkTokens(text.tokens, limits.vocab, "input");
    } else {
      text.tokens = tokensOf(input, nullptr, limits.vocab, "input");
    }
    if (most > 0)
      preparer.cut(text, most);
    if (int64_t(text.tokens.size()) > limits.maxTokens)
      throw ApiError(
          400, "H0380",
          "a text of input has " + std::to_string(text.tokens.size()) +
              " tokens; it can have " + std::to_string(limits.maxTokens) +
              ": shorten it, or add \"truncate_prompt_tokens\": -1",
          "input");
    texts.push_back(std::move(text));
  }
  return texts;
}

ServiceFront::Answer EmbeddingService::read(const HttpRequest &http) {
  auto made = std::make_shared<Active>();
  made->request = EmbeddingRequest::read(http.body);
  made->path = http.path;
  auto texts =
      std::make_shared<const std::vector<EncoderText>>(textsOf(made->request));
  return
      [this, made, texts](const Reply &reply) { begin(made, *texts, reply); };
}

void EmbeddingService::begin(const std::shared_ptr<Active> &made,
                             const std::vector<EncoderText> &texts,
                             const Reply &reply) {
  admit(made->request.model, int64_t(active.size()), int64_t(texts.size()));
  made->http = reply;
  made->left = texts.size();
  made->embeddings.resize(texts.size() * limits.width);
  std::vector<EmbeddingLoop::Submission> asked;
  Clock::time_point deadline = deadlineOf(made->request.timeout);
  for (const EncoderText &text : texts) {
    made->tokens += int64_t(text.tokens.size());
    active[++lastId] = {made, made->ids.size()};
    made->ids.push_back(lastId);
    asked.push_back({lastId, text, deadline});
  }
  reply->onClose = [this, waiting = std::weak_ptr<Active>(made)] {
    if (std::shared_ptr<Active> gone = waiting.lock()) {
      metrics.countRequest(gone->path, clientGone);
      forget(*gone);
    }
  };
  loop.submit(std::move(asked));
}

/// Removes a request that is answered or failed.
void EmbeddingService::forget(const Active &gone) {
  std::vector<uint64_t> ids = gone.ids, alive;
  for (uint64_t id : ids)
    if (active.erase(id) > 0)
      alive.push_back(id);
  loop.cancel(alive);
}

void EmbeddingService::fail(const std::shared_ptr<Active> &failed,
                            const ApiError &error) {
  sendError(failed->http, failed->path, error);
  forget(*failed);
}

void EmbeddingService::take(const EmbeddingEvent &event) {
  auto found = active.find(event.id);
  // The client has closed the connection.
  if (found == active.end())
    return;
  auto [owner, index] = found->second;
  if (event.embedding.empty())
    return fail(owner, {504, "H0475", "the time for this request is over"});
  if (!std::all_of(event.embedding.begin(), event.embedding.end(),
                   [](float value) { return std::isfinite(value); }))
    return fail(owner,
                {500, "H0481", "the model gives values that are not finite"});
  std::copy(event.embedding.begin(), event.embedding.end(),
            owner->embeddings.begin() + index * limits.width);
  active.erase(found);
  if (--owner->left == 0)
    send(owner->http, owner->path, 200, jsonType,
         embeddingReply(owner->request, options.models.front(),
                        owner->embeddings, limits.width, owner->tokens));
}

void EmbeddingService::failAll(const ApiError &error) {
  while (!active.empty())
    fail(active.begin()->second.first, error);
}

std::unique_ptr<Service>
heddle::rt::serveEmbeddings(Encoder &encoder, TextPreparer texts,
                            const ServiceOptions &options) {
  return std::make_unique<EmbeddingService>(encoder, std::move(texts), options);
}
