//===- CompletionService.cpp - Serve completions and chats ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers /v1/completions and /v1/chat/completions: turns prompts or chats into
// tokens (`promptsOf`), lets CompletionLoop generate, and sends the answers,
// whole or streamed.
//
//===----------------------------------------------------------------------===//

#include "CompletionLoop.h"
#include "CompletionReply.h"
#include "ServiceFront.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

#include <algorithm>
#include <random>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A request that is being answered. Used on the server's thread.
struct ActiveRequest {
  CompletionRequest request;
  std::shared_ptr<HttpReply> http;
  std::optional<CompletionReply> writer;
  /// Ids of the sequences that the request asks for.
  std::vector<uint64_t> ids;
  /// The choices of the answer. They hold all text and tokens, unless the
  /// answer is streamed: then each chunk is sent immediately, and each choice
  /// holds only its index.
  std::vector<CompletionChoice> texts;
  std::vector<bool> hasBegun; ///< Whether a choice's first chunk was sent.
  /// For each choice, the number of characters of the prompt that its answer
  /// repeats (OpenAI's field `echo`).
  std::vector<int64_t> echoed;
  std::string path;
  Usage usage;
  int64_t left = 0; ///< Number of sequences that have not ended.
};

class CompletionService final : public ServiceFront {
public:
  CompletionService(Engine &engine, Engine *draft, const ServedText &text,
                    const ServiceOptions &options)
      : ServiceFront(options), limits(engine.limits()), text(text),
        loop(engine, {text.tokenizer, options.checksPages, draft}, metrics,
             [this](std::vector<SequenceEvent> events) {
               server.post([this, events = std::move(events)] {
                 for (const SequenceEvent &event : events)
                   take(event);
               });
             }) {}
  ~CompletionService() override { stop(); }

private:
  std::vector<std::string> paths() const override {
    return {"/v1/completions", "/v1/chat/completions"};
  }
  Answer read(const HttpRequest &http) override;
  int64_t longest() const override { return loop.longest(); }
  bool isDraining() const override { return loop.isDraining(); }
  int work(const std::function<int()> &stopSignal) override {
    return loop.run(stopSignal);
  }
  void failAll(const ApiError &error) override;

  /// Starts to answer a request. Called on the server's thread, after `read`
  /// has parsed the request.
  void begin(const std::shared_ptr<ActiveRequest> &made,
             const std::vector<Tokens> &prompts, const std::string &client,
             const Reply &reply);
  std::vector<Tokens> promptsOf(const CompletionRequest &request) const;
  void checkLength(const Tokens &prompt, const char *field) const;
  std::vector<CompletionLoop::Submission>
  sequencesOf(ActiveRequest &active, const std::vector<Tokens> &prompts,
              const std::string &client);

  /// Processes an event of CompletionLoop. Called on the server's thread.
  void take(const SequenceEvent &event);
  void takeStreamed(ActiveRequest &active, const CompletionChoice &part);
  /// Begins the text of each choice with its prompt.
  void echo(ActiveRequest &active, const std::vector<Tokens> &prompts);
  void finish(ActiveRequest &active);
  void fail(const std::shared_ptr<ActiveRequest> &active,
            const ApiError &error);
  void forget(const ActiveRequest &active);

  const EngineLimits limits;
  const ServedText text;
  /// The key is the id of a sequence. The value is the request that asks for
  /// the sequence, and the index of its choice in the answer.
  std::unordered_map<uint64_t,
                     std::pair<std::shared_ptr<ActiveRequest>, int64_t>>
      active;
  uint64_t lastId = 0;
  std::mt19937_64 random{randomSeed()};
  CompletionLoop loop;
};

} // namespace

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

void CompletionService::checkLength(const Tokens &prompt,
                                    const char *field) const {
  if (int64_t(prompt.size()) >= longest())
    throw ApiError(400, "H0380",
                   "the prompt has " + std::to_string(prompt.size()) +
                       " tokens; it and the text can have " +
                       std::to_string(longest()) +
                       " together: send a shorter one",
                   field);
}

/// Whether the prompt's tokens must be computed with their logits, not only
/// echoed as text.
static bool scoresPrompt(const CompletionRequest &request) {
  return request.echoes && (request.logprobs >= 0 || request.maxTokens == 0);
}

std::vector<Tokens>
CompletionService::promptsOf(const CompletionRequest &request) const {
  if (!text.tokenizer && !request.stops.empty())
    throw ApiError(400, "H0380", "stop needs a tokenizer: there is none",
                   "stop");
  for (auto [token, added] : request.sampling.bias)
    if (token >= limits.vocab)
      throw ApiError(400, "H0380",
                     "logit_bias: token " + std::to_string(token) +
                         " is not in the vocabulary of " +
                         std::to_string(limits.vocab),
                     "logit_bias");
  if (scoresPrompt(request) && limits.maxScored == 0)
    throw ApiError(400, "H0380",
                   "echo with logprobs needs a binary that was compiled with "
                   "--mode serve",
                   "echo");
  std::vector<Tokens> prompts;
  if (request.isChat) {
    if (!text.chat || !text.tokenizer)
      throw ApiError(400, "H0380",
                     "this model has no chat template: use /v1/completions",
                     "messages");
    prompts.push_back(text.chat->encodeChat(request.messages, *text.tokenizer));
    checkTokens(prompts.back(), limits.vocab, "messages");
    checkLength(prompts.back(), "messages");
    return prompts;
  }
  for (const CompletionRequest::Prompt &prompt : request.prompts) {
    prompts.push_back(tokensOf(prompt, text.tokenizer, limits.vocab, "prompt"));
    checkLength(prompts.back(), "prompt");
  }
  return prompts;
}

/// Returns the sequences that a request asks for: `request.count` sequences for
/// each prompt, in the order of the prompts.
std::vector<CompletionLoop::Submission>
CompletionService::sequencesOf(ActiveRequest &made,
                               const std::vector<Tokens> &prompts,
                               const std::string &client) {
  const CompletionRequest &request = made.request;
  auto deadline = deadlineOf(request.timeout);
  uint64_t seed = request.seed.value_or(random());
  std::vector<CompletionLoop::Submission> asked;
  for (const Tokens &prompt : prompts) {
    made.usage.promptTokens += prompt.size();
    for (int64_t text = 0; text < request.count; ++text) {
      SequenceRequest one;
      one.id = ++lastId;
      one.client = client;
      one.prompt = prompt;
      one.maxTokens =
          request.maxTokens.value_or(request.isChat ? loop.longest() : 16);
      if (!request.ignoresEnd)
        one.ends = this->text.ends;
      one.sampling = request.sampling;
      one.sampling.seed = seed;
      one.sampling.stream = uint32_t(text);
      one.logprobs = request.logprobs;
      one.scoresPrompt = scoresPrompt(request);
      one.deadline = deadline;
      one.after = text == 0 ? 0 : one.id - text;
      made.ids.push_back(one.id);
      asked.push_back({std::move(one), request.stops, !request.isChat});
    }
  }
  return asked;
}

ServiceFront::Answer CompletionService::read(const HttpRequest &http) {
  auto made = std::make_shared<ActiveRequest>();
  bool isChat = http.path == "/v1/chat/completions";
  made->request = CompletionRequest::read(http.body, isChat, text.sampling);
  made->path = http.path;
  std::string client =
      made->request.user.empty() ? http.peer : "user " + made->request.user;
  auto prompts =
      std::make_shared<const std::vector<Tokens>>(promptsOf(made->request));
  return [this, made, prompts, client](const Reply &reply) {
    begin(made, *prompts, client, reply);
  };
}

void CompletionService::begin(const std::shared_ptr<ActiveRequest> &made,
                              const std::vector<Tokens> &prompts,
                              const std::string &client, const Reply &reply) {
  const CompletionRequest &request = made->request;
  admit(request.model, int64_t(active.size()),
        request.count * int64_t(prompts.size()));
  std::vector<CompletionLoop::Submission> asked =
      sequencesOf(*made, prompts, client);
  made->http = reply;
  made->left = made->ids.size();
  made->texts.resize(made->left);
  made->hasBegun.resize(made->left);
  made->echoed.resize(made->left);
  made->writer.emplace(made->request,
                       (request.isChat ? "chatcmpl-" : "cmpl-") +
                           std::to_string(random()),
                       options.models.front(), created, text.tokenizer);
  for (size_t i = 0; i < made->ids.size(); ++i) {
    made->texts[i].index = int64_t(i);
    active[made->ids[i]] = {made, int64_t(i)};
  }
  reply->onClose = [this, waiting = std::weak_ptr<ActiveRequest>(made)] {
    if (std::shared_ptr<ActiveRequest> gone = waiting.lock()) {
      metrics.countRequest(gone->path, clientGone);
      forget(*gone);
    }
  };
  if (request.streams)
    reply->begin("text/event-stream");
  if (request.echoes)
    echo(*made, prompts);
  loop.submit(std::move(asked));
}

void CompletionService::echo(ActiveRequest &made,
                             const std::vector<Tokens> &prompts) {
  const CompletionRequest &request = made.request;
  for (CompletionChoice &text : made.texts) {
    size_t number = size_t(text.index / request.count);
    const CompletionRequest::Prompt &given = request.prompts[number];
    CompletionChoice part;
    part.index = text.index;
    if (const auto *written = std::get_if<std::string>(&given))
      part.text = *written;
    else if (this->text.tokenizer)
      part.text = this->text.tokenizer->decode(prompts[number]);
    else
      for (int32_t token : prompts[number])
        part.text += std::to_string(token) + " ";
    made.echoed[part.index] = io::unicode::countCharacters(part.text);
    if (request.streams)
      takeStreamed(made, part);
    else
      text.text = part.text;
  }
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

/// Removes a request that is answered or failed, and cancels its sequences.
void CompletionService::forget(const ActiveRequest &gone) {
  std::vector<uint64_t> ids = gone.ids, alive;
  for (uint64_t id : ids)
    if (active.erase(id) > 0)
      alive.push_back(id);
  loop.cancel(alive);
}

void CompletionService::fail(const std::shared_ptr<ActiveRequest> &failed,
                             const ApiError &error) {
  std::shared_ptr<HttpReply> http = failed->http;
  if (failed->request.streams) {
    metrics.countRequest(failed->path, error.status);
    http->status = error.status;
    http->reason = error.reason();
    http->write(serverSentEvent(error.body()));
    http->end();
  } else {
    sendError(http, failed->path, error);
  }
  forget(*failed);
}

void CompletionService::takeStreamed(ActiveRequest &streamed,
                                     const CompletionChoice &part) {
  // Do not send a chunk without content, as when a part of a character is held
  // back.
  bool isEmpty = part.text.empty() && part.finish.empty() &&
                 part.logprobs.empty() && !streamed.request.returnsTokenIds;
  if (isEmpty)
    return;
  bool isFirst = !streamed.hasBegun[part.index];
  streamed.hasBegun[part.index] = true;
  streamed.http->write(streamed.writer->chunk(part, isFirst));
}

void CompletionService::finish(ActiveRequest &ended) {
  if (!ended.request.streams)
    return send(ended.http, ended.path, 200, jsonType,
                ended.writer->whole(ended.texts, ended.usage));
  metrics.countRequest(ended.path, 200);
  if (ended.request.includesUsage)
    ended.http->write(ended.writer->usageChunk(ended.usage));
  ended.http->write(serverSentEvent("[DONE]"));
  ended.http->end();
}

void CompletionService::take(const SequenceEvent &event) {
  auto found = active.find(event.id);
  // The client has closed the connection.
  if (found == active.end())
    return;
  auto [owner, index] = found->second;
  if (event.end == FinishReason::Expired)
    return fail(owner, {504, "H0475", "the time for this request is over"});
  if (event.end == FinishReason::NotFinite)
    return fail(owner,
                {500, "H0481", "the model gives values that are not finite"});
  CompletionChoice part;
  part.index = index;
  part.text = event.part;
  if (event.token) {
    ++owner->usage.newTokens;
    part.tokens.push_back(*event.token);
  }
  if (!event.logprobs.empty() && owner->request.logprobs >= 0) {
    part.logprobs.push_back(event.logprobs);
    // Offsets count characters from the beginning of the answer, including the
    // echoed prompt. The offset of a prompt's token counts decoded text, which
    // may be longer than the prompt as the client wrote it, so limit it.
    int64_t prompt = owner->echoed[index];
    part.offsets.push_back(event.token ? prompt + event.offset
                                       : std::min(prompt, event.offset));
  }
  if (event.end)
    part.finish = event.end == FinishReason::Stop ? "stop" : "length";
  if (owner->request.streams) {
    takeStreamed(*owner, part);
  } else {
    CompletionChoice &whole = owner->texts[index];
    whole.text += part.text;
    whole.tokens.insert(whole.tokens.end(), part.tokens.begin(),
                        part.tokens.end());
    whole.logprobs.insert(whole.logprobs.end(), part.logprobs.begin(),
                          part.logprobs.end());
    whole.offsets.insert(whole.offsets.end(), part.offsets.begin(),
                         part.offsets.end());
    whole.finish = part.finish;
  }
  if (!event.end)
    return;
  active.erase(event.id);
  if (--owner->left == 0)
    finish(*owner);
}

void CompletionService::failAll(const ApiError &error) {
  while (!active.empty())
    fail(active.begin()->second.first, error);
}

std::unique_ptr<Service>
heddle::rt::serveCompletions(Engine &engine, Engine *draft,
                             const ServedText &text,
                             const ServiceOptions &options) {
  return std::make_unique<CompletionService>(engine, draft, text, options);
}
