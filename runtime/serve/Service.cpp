//===- Service.cpp - Texts over HTTP --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Service.h"
#include "heddle/runtime/io/Peers.h"
#include "heddle/runtime/serve/CompletionReply.h"
#include "heddle/runtime/serve/TextLoop.h"

#include <chrono>
#include <random>
#include <sys/random.h>
#include <thread>

using namespace heddle;
using namespace heddle::rt;

static const char *const jsonType = "application/json";

/// std::random_device would ask for a function that came with glibc 2.36.
static uint64_t randomSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = std::chrono::steady_clock::now().time_since_epoch().count();
  return seed;
}

namespace {

/// A request that is being answered, known to the server's thread.
struct Active {
  CompletionRequest request;
  std::shared_ptr<HttpReply> http;
  std::optional<CompletionReply> writer;
  std::vector<uint64_t> ids;   ///< Of its texts.
  std::vector<TextPart> texts; ///< All of them, unless they are streamed.
  std::vector<bool> hasBegun;  ///< Of those that are streamed.
  std::string path;
  Usage usage;
  int64_t left = 0; ///< Texts that have not ended.
};

} // namespace

class Service::State {
public:
  State(Engine &engine, const ServedText &text, const ServiceOptions &options);
  ~State() { server.finish(0); }

  uint16_t port() const { return server.port(); }
  int run(const std::function<int()> &stopSignal);
  void failAll(int status, const std::string &code, const std::string &message);

private:
  using Reply = std::shared_ptr<HttpReply>;
  void answer(HttpRequest http, const Reply &reply);
  void route(const HttpRequest &http, const Reply &reply);
  void complete(const HttpRequest &http, const Reply &reply, bool isChat);
  void checkKey(const HttpRequest &http) const;
  /// Throws unless the request can be taken now.
  void admit(const CompletionRequest &request) const;
  std::vector<std::vector<int32_t>>
  promptsOf(const CompletionRequest &request) const;
  void checkPrompt(const std::vector<int32_t> &prompt, const char *field) const;
  std::vector<TextLoop::Asked>
  textsOf(Active &active, const std::vector<std::vector<int32_t>> &prompts,
          const std::string &client);
  std::string modelJson() const;

  /// What the loop tells, on the server's thread.
  void take(const TextEvent &event);
  void takeStreamed(Active &active, const TextPart &part);
  void finish(Active &active);
  void fail(const std::shared_ptr<Active> &active, const ApiError &error);
  void forget(const Active &active);
  void send(const Reply &reply, const std::string &path, int status,
            const std::string &type, const std::string &body);

  const EngineLimits limits;
  const ServedText text;
  const ServiceOptions options;
  const int64_t created;
  Metrics metrics;
  std::unordered_map<uint64_t, std::pair<std::shared_ptr<Active>, int64_t>>
      active; ///< By text, with its place in the request.
  uint64_t lastId = 0;
  std::mt19937_64 random{randomSeed()};
  TextLoop loop;
  HttpServer server;
};

Service::State::State(Engine &engine, const ServedText &text,
                      const ServiceOptions &options)
    : limits(engine.limits()), text(text), options(options),
      created(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      loop(engine, {text.tokenizer, options.checksPages}, metrics,
           [this](std::vector<TextEvent> events) {
             server.post([this, events = std::move(events)] {
               for (const TextEvent &event : events)
                 take(event);
             });
           }),
      server(
          options.http,
          [this](HttpRequest http, const Reply &reply) {
            answer(std::move(http), reply);
          },
          [](int status, const char *message) {
            return ApiError(status, "H0380", message).body();
          }) {}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// The path as it is counted: few names, whatever clients ask for.
static std::string countedPath(const std::string &path) {
  for (const char *known : {"/v1/completions", "/v1/chat/completions",
                            "/v1/models", "/health", "/metrics"})
    if (path == known)
      return known;
  return "other";
}

void Service::State::send(const Reply &reply, const std::string &path,
                          int status, const std::string &type,
                          const std::string &body) {
  metrics.countRequest(countedPath(path), status);
  reply->send(status, type, body);
}

void Service::State::answer(HttpRequest http, const Reply &reply) {
  auto refuse = [&](const ApiError &error) {
    send(reply, http.path, error.status, jsonType, error.body());
  };
  try {
    route(http, reply);
  } catch (const ApiError &error) {
    refuse(error);
  } catch (const UserError &error) {
    refuse({400, error.diagnostic.code, error.diagnostic.message});
  } catch (const std::exception &error) {
    Diagnostic unexpected = io::describeUnexpected(error);
    refuse({500, unexpected.code, unexpected.message});
  }
}

void Service::State::route(const HttpRequest &http, const Reply &reply) {
  const std::string &path = http.path;
  bool isPost = path == "/v1/completions" || path == "/v1/chat/completions";
  bool isGet = path == "/health" || path == "/metrics" ||
               path == "/v1/models" || path == "/v1/models/" + options.model;
  if (!isPost && !isGet)
    throw ApiError(404, "H0479", "there is nothing at " + path);
  const char *method = isPost ? "POST" : "GET";
  if (http.method != method)
    throw ApiError(405, "H0479", path + " is for " + method + " alone");
  if (path == "/health") {
    bool isDraining = loop.isDraining();
    return send(reply, path, isDraining ? 503 : 200, jsonType,
                isDraining ? R"({"status":"draining"})" : R"({"status":"ok"})");
  }
  if (path == "/metrics")
    return send(reply, path, 200, "text/plain; version=0.0.4", metrics.text());
  checkKey(http);
  if (path == "/v1/models")
    return send(reply, path, 200, jsonType,
                "{\"object\":\"list\",\"data\":[" + modelJson() + "]}");
  if (isGet)
    return send(reply, path, 200, jsonType, modelJson());
  complete(http, reply, path == "/v1/chat/completions");
}

std::string Service::State::modelJson() const {
  return nlohmann::ordered_json{{"id", options.model},
                                {"object", "model"},
                                {"created", created},
                                {"owned_by", "heddle"},
                                {"max_model_len", loop.longest()}}
      .dump();
}

/// Compares all of it, so that the time says nothing about the key.
static bool isSame(const std::string &a, const std::string &b) {
  unsigned different = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different |= a[i] ^ b[i % std::max<size_t>(b.size(), 1)];
  return different == 0;
}

void Service::State::checkKey(const HttpRequest &http) const {
  if (!options.apiKey.empty() &&
      !isSame(http.authorization, "Bearer " + options.apiKey))
    throw ApiError(401, "H0478",
                   "the header Authorization: Bearer KEY is missing, or the "
                   "key is another one");
}

void Service::State::admit(const CompletionRequest &request) const {
  if (!request.model.empty() && request.model != options.model)
    throw ApiError(404, "H0479",
                   "there is no model " + request.model + ", only " +
                       options.model,
                   "model");
  if (loop.isDraining())
    throw ApiError(503, "H0477", "the server ends");
  int64_t more = request.count * std::max<int64_t>(1, request.prompts.size());
  if (int64_t(active.size()) + more > options.maxTexts)
    throw ApiError(503, "H0476",
                   std::to_string(active.size()) +
                       " texts are being made, of at most " +
                       std::to_string(options.maxTexts));
}

void Service::State::checkPrompt(const std::vector<int32_t> &prompt,
                                 const char *field) const {
  if (prompt.empty())
    throw ApiError(400, "H0380", "the prompt has no tokens", field);
  if (int64_t(prompt.size()) >= loop.longest())
    throw ApiError(400, "H0380",
                   "the prompt has " + std::to_string(prompt.size()) +
                       " tokens; it and the text can have " +
                       std::to_string(loop.longest()) + " together",
                   field);
  for (int32_t token : prompt)
    if (token < 0 || token >= limits.vocab)
      throw ApiError(400, "H0380",
                     "token " + std::to_string(token) +
                         " is not in the vocabulary of " +
                         std::to_string(limits.vocab),
                     field);
}

std::vector<std::vector<int32_t>>
Service::State::promptsOf(const CompletionRequest &request) const {
  if (!text.tokenizer && !request.stops.empty())
    throw ApiError(400, "H0380", "stop needs a tokenizer: there is none",
                   "stop");
  std::vector<std::vector<int32_t>> prompts;
  if (request.isChat) {
    if (!text.chat || !text.tokenizer)
      throw ApiError(400, "H0380",
                     "this model has no chat template: use /v1/completions",
                     "messages");
    prompts.push_back(text.tokenizer->encode(
        text.chat->render({{"messages", request.messages},
                           {"tools", nullptr},
                           {"documents", nullptr},
                           {"add_generation_prompt", true}})));
    checkPrompt(prompts.back(), "messages");
    return prompts;
  }
  for (const CompletionRequest::Prompt &prompt : request.prompts) {
    if (auto *tokens = std::get_if<std::vector<int32_t>>(&prompt))
      prompts.push_back(*tokens);
    else if (text.tokenizer)
      prompts.push_back(
          text.tokenizer->encodePrompt(std::get<std::string>(prompt)));
    else
      throw ApiError(400, "H0380",
                     "there is no tokenizer: give the prompt as tokens",
                     "prompt");
    checkPrompt(prompts.back(), "prompt");
  }
  return prompts;
}

/// The texts of a request: those of the first prompt, of the second, ...
std::vector<TextLoop::Asked>
Service::State::textsOf(Active &made,
                        const std::vector<std::vector<int32_t>> &prompts,
                        const std::string &client) {
  const CompletionRequest &request = made.request;
  double seconds =
      std::min(options.seconds, request.timeout.value_or(options.seconds));
  auto deadline = Scheduler::Clock::now() +
                  std::chrono::duration_cast<Scheduler::Clock::duration>(
                      std::chrono::duration<double>(std::min(seconds, 1e9)));
  uint64_t seed = request.seed.value_or(random());
  std::vector<TextLoop::Asked> asked;
  for (const std::vector<int32_t> &prompt : prompts) {
    made.usage.promptTokens += prompt.size();
    for (int64_t text = 0; text < request.count; ++text) {
      TextRequest one;
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
      one.deadline = deadline;
      one.after = text == 0 ? 0 : one.id - text;
      made.ids.push_back(one.id);
      asked.push_back({std::move(one), request.stops});
    }
  }
  return asked;
}

void Service::State::complete(const HttpRequest &http, const Reply &reply,
                              bool isChat) {
  auto made = std::make_shared<Active>();
  made->request = CompletionRequest::read(http.body, isChat);
  admit(made->request);
  std::vector<std::vector<int32_t>> prompts = promptsOf(made->request);
  std::string client =
      made->request.user.empty() ? http.peer : "user " + made->request.user;
  std::vector<TextLoop::Asked> asked = textsOf(*made, prompts, client);

  made->http = reply;
  made->path = http.path;
  made->left = made->ids.size();
  made->texts.resize(made->left);
  made->hasBegun.resize(made->left);
  made->writer.emplace(made->request,
                       (isChat ? "chatcmpl-" : "cmpl-") +
                           std::to_string(random()),
                       options.model, created, text.tokenizer);
  for (size_t i = 0; i < made->ids.size(); ++i) {
    made->texts[i].index = int64_t(i);
    active[made->ids[i]] = {made, int64_t(i)};
  }
  reply->onClose = [this, waiting = std::weak_ptr<Active>(made)] {
    if (std::shared_ptr<Active> gone = waiting.lock()) {
      // 499: the client went away.
      metrics.countRequest(gone->path, 499);
      forget(*gone);
    }
  };
  if (made->request.streams)
    reply->begin("text/event-stream");
  loop.submit(std::move(asked));
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

/// Leaves an answer that needs nothing more; its texts end.
void Service::State::forget(const Active &gone) {
  std::vector<uint64_t> ids = gone.ids, alive;
  for (uint64_t id : ids)
    if (active.erase(id) > 0)
      alive.push_back(id);
  loop.cancel(alive);
}

void Service::State::fail(const std::shared_ptr<Active> &failed,
                          const ApiError &error) {
  std::shared_ptr<HttpReply> http = failed->http;
  if (failed->request.streams) {
    metrics.countRequest(failed->path, error.status);
    http->write(serverSentEvent(error.body()));
    http->end();
  } else {
    send(http, failed->path, error.status, jsonType, error.body());
  }
  forget(*failed);
}

void Service::State::takeStreamed(Active &streamed, const TextPart &part) {
  // What is held back, as a part of a character, is not sent alone.
  bool isEmpty = part.text.empty() && part.finish.empty() &&
                 part.logprobs.empty() && !streamed.request.returnsTokenIds;
  if (isEmpty)
    return;
  bool isFirst = !streamed.hasBegun[part.index];
  streamed.hasBegun[part.index] = true;
  streamed.http->write(streamed.writer->chunk(part, isFirst));
}

void Service::State::finish(Active &ended) {
  if (!ended.request.streams)
    return send(ended.http, ended.path, 200, jsonType,
                ended.writer->whole(ended.texts, ended.usage));
  metrics.countRequest(ended.path, 200);
  if (ended.request.includesUsage)
    ended.http->write(ended.writer->usageChunk(ended.usage));
  ended.http->write(serverSentEvent("[DONE]"));
  ended.http->end();
}

void Service::State::take(const TextEvent &event) {
  auto found = active.find(event.id);
  if (found == active.end())
    return; // Its client went away.
  auto [owner, index] = found->second;
  if (event.end == TextEnd::Expired)
    return fail(owner, {504, "H0475", "the time for this request is over"});
  TextPart part;
  part.index = index;
  part.text = event.part;
  if (event.token) {
    ++owner->usage.newTokens;
    part.tokens.push_back(*event.token);
    if (!event.logprobs.empty())
      part.logprobs.push_back(event.logprobs);
  }
  if (event.end)
    part.finish = event.end == TextEnd::Stop ? "stop" : "length";
  if (owner->request.streams) {
    takeStreamed(*owner, part);
  } else {
    TextPart &whole = owner->texts[index];
    whole.text += part.text;
    whole.tokens.insert(whole.tokens.end(), part.tokens.begin(),
                        part.tokens.end());
    whole.logprobs.insert(whole.logprobs.end(), part.logprobs.begin(),
                          part.logprobs.end());
    whole.finish = part.finish;
  }
  if (!event.end)
    return;
  active.erase(event.id);
  if (--owner->left == 0)
    finish(*owner);
}

/// Tells all clients of an error, soon.
void Service::State::failAll(int status, const std::string &code,
                             const std::string &message) {
  server.post([this, status, code, message] {
    while (!active.empty())
      fail(active.begin()->second.first, {status, code, message});
  });
}

int Service::State::run(const std::function<int()> &stopSignal) {
  server.start();
  try {
    int signal = loop.run(stopSignal);
    // Of what came too late nothing is heard.
    failAll(503, "H0477", "the server ends");
    server.finish(options.http.seconds);
    return signal;
  } catch (const UserError &error) {
    failAll(500, error.diagnostic.code, error.diagnostic.message);
    server.finish(2);
    throw;
  } catch (const std::exception &error) {
    Diagnostic unexpected = io::describeUnexpected(error);
    failAll(500, unexpected.code, unexpected.message);
    server.finish(2);
    throw;
  }
}

Service::Service(Engine &engine, const ServedText &text,
                 const ServiceOptions &options)
    : state(std::make_unique<State>(engine, text, options)) {}
Service::~Service() = default;
uint16_t Service::port() const { return state->port(); }
int Service::run(const std::function<int()> &stopSignal) {
  return state->run(stopSignal);
}

void Service::giveUp(const Diagnostic &diagnostic) {
  state->failAll(500, diagnostic.code, diagnostic.message);
  // The answers are short: they only have to leave this process.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}
