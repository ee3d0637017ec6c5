//===- ServiceFront.cpp - What all services share -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Routes, authorization, errors and shutdown of a service.
//
//===----------------------------------------------------------------------===//

#include "ServiceFront.h"
#include "heddle/runtime/io/Peers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <strings.h>
#include <sys/random.h>

using namespace heddle;
using namespace heddle::rt;

uint64_t heddle::rt::randomSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = std::chrono::steady_clock::now().time_since_epoch().count();
  return seed;
}

ServiceFront::ServiceFront(const ServiceOptions &options)
    : options(options),
      created(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      server(
          options.http,
          [this](HttpRequest http, const Reply &reply) {
            answer(std::move(http), reply);
          },
          [](int status, const std::string &message) {
            return ApiError(status, "H0380", message).body();
          }) {}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

static constexpr const char *modelPrefix = "/v1/models/";
static constexpr const char *posted[] = {
    "/v1/completions", "/v1/chat/completions", "/v1/embeddings"};

/// Returns a hint about the path that a client may have meant, such as "; ask
/// /v1/completions", or "". A client may have left out /v1, or have put a base
/// URL before the path.
static std::string nearPath(std::string path,
                            const std::vector<std::string> &paths) {
  while (!path.empty() && path.back() == '/')
    path.pop_back();
  std::string nearest;
  for (const std::string &each : paths) {
    std::string end = each.substr(std::strlen("/v1"));
    bool ends = path.size() >= end.size() &&
                path.compare(path.size() - end.size(), end.size(), end) == 0;
    if (ends && each.size() > nearest.size())
      nearest = each;
  }
  return nearest.empty() ? "" : "; ask " + nearest;
}

/// Returns the path under which metrics count a request: unknown paths share
/// one name, so that clients cannot add any number of them.
static std::string countedPath(const std::string &path) {
  for (const char *known : posted)
    if (path == known)
      return known;
  for (const char *known : {"/v1/models", "/health", "/metrics"})
    if (path == known)
      return known;
  return "other";
}

void ServiceFront::send(const Reply &reply, const std::string &path, int status,
                        const std::string &type, const std::string &body) {
  metrics.countRequest(countedPath(path), status);
  reply->send(status, type, body);
}

void ServiceFront::sendError(const Reply &reply, const std::string &path,
                             const ApiError &error) {
  reply->reason = error.reason();
  send(reply, path, error.status, jsonType, error.body());
}

void ServiceFront::orRefuse(const Reply &reply, const std::string &path,
                            const std::function<void()> &action) {
  auto refuse = [&](const ApiError &error) { sendError(reply, path, error); };
  try {
    action();
  } catch (const ApiError &error) {
    refuse(error);
  } catch (const UserError &error) {
    refuse({400, error.diagnostic.code, error.diagnostic.message});
  } catch (const std::exception &error) {
    Diagnostic unexpected = io::describeUnexpected(error);
    refuse({500, unexpected.code, unexpected.message});
  }
}

void ServiceFront::answer(HttpRequest http, const Reply &reply) {
  const std::string path = http.path;
  orRefuse(reply, path, [&] { route(http, reply); });
}

void ServiceFront::readThenAnswer(HttpRequest http, const Reply &reply) {
  auto work = [this, http = std::move(http), reply]() mutable {
    Answer answer;
    try {
      answer = read(http);
    } catch (...) {
      answer = [error = std::current_exception()](const Reply &) {
        std::rethrow_exception(error);
      };
    }
    // Move the reply to the server's thread, which must also be the one that
    // destroys it.
    server.post([this, reply = std::move(reply), path = http.path,
                 answer = std::move(answer)] {
      if (reply->isGone())
        metrics.countRequest(path, clientGone);
      else
        orRefuse(reply, path, [&] { answer(reply); });
    });
  };
  reading.add(std::move(work));
}

void ServiceFront::route(HttpRequest &http, const Reply &reply) {
  const std::string &path = http.path;
  std::vector<std::string> own = paths();
  auto isOneOf = [&](const auto &list) {
    return std::find(std::begin(list), std::end(list), path) != std::end(list);
  };
  bool isPost = isOneOf(own);
  std::string asked = path.rfind(modelPrefix, 0) == 0
                          ? path.substr(std::strlen(modelPrefix))
                          : "";
  bool isGet = path == "/health" || path == "/metrics" ||
               path == "/v1/models" || isNamed(asked);
  if (!isPost && isOneOf(posted)) {
    std::string answered = own.front();
    for (size_t i = 1; i < own.size(); ++i)
      answered += " and " + own[i];
    throw ApiError(404, "H0480",
                   "this model does not answer " + path + ", only " + answered);
  }
  if (!isPost && !isGet)
    throw ApiError(404, "H0479",
                   "there is nothing at " + path + nearPath(path, own));
  const char *method = isPost ? "POST" : "GET";
  bool isHead = !isPost && http.method == "HEAD";
  if (http.method != method && !isHead) {
    reply->allowed = isPost ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
    if (http.method != "OPTIONS")
      throw ApiError(405, "H0479", path + " is for " + method + " alone");
    // A browser's preflight request has no API key.
    return send(reply, path, 200, "text/plain", "");
  }
  if (path == "/health")
    return send(reply, path, isDraining() ? 503 : 200, jsonType,
                isDraining() ? R"({"status":"draining"})"
                             : R"({"status":"ok"})");
  if (path == "/metrics")
    return send(reply, path, 200, "text/plain; version=0.0.4", metrics.text());
  checkKey(http);
  if (path == "/v1/models")
    return send(reply, path, 200, jsonType, modelsJson());
  if (isGet)
    return send(reply, path, 200, jsonType, modelJson(asked).dump());
  if (!http.encoding.empty() && http.encoding != "identity")
    throw ApiError(415, "H0380",
                   "the body's Content-Encoding is " + http.encoding +
                       ": send it as it is");
  readThenAnswer(std::move(http), reply);
}

bool ServiceFront::isNamed(const std::string &model) const {
  return std::find(options.models.begin(), options.models.end(), model) !=
         options.models.end();
}

nlohmann::ordered_json ServiceFront::modelJson(const std::string &name) const {
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "heddle"},
          {"max_model_len", longest()}};
}

std::string ServiceFront::modelsJson() const {
  auto data = nlohmann::ordered_json::array();
  for (const std::string &name : options.models)
    data.push_back(modelJson(name));
  return nlohmann::ordered_json{{"object", "list"}, {"data", data}}.dump();
}

/// Compares in constant time, so that the time reveals nothing about the key.
static bool isSame(const std::string &a, const std::string &b) {
  unsigned different = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different |= a[i] ^ b[i % std::max<size_t>(b.size(), 1)];
  return different == 0;
}

/// Returns the text after the scheme "Bearer", which is case-insensitive (RFC
/// 9110, 11.1).
static std::string keyOf(const std::string &authorization) {
  constexpr const char *scheme = "Bearer ";
  size_t length = std::strlen(scheme);
  return strncasecmp(authorization.c_str(), scheme, length) == 0
             ? authorization.substr(length)
             : "";
}

void ServiceFront::checkKey(const HttpRequest &http) const {
  if (!options.apiKey.empty() &&
      !isSame(keyOf(http.authorization), options.apiKey))
    throw ApiError(401, "H0478",
                   "the header Authorization: Bearer KEY is missing, or the "
                   "key is another one");
}

void ServiceFront::admit(const std::string &model, int64_t now,
                         int64_t more) const {
  if (!model.empty() && !isNamed(model))
    throw ApiError(404, "H0479",
                   "there is no model " + model + ", only " +
                       options.models.front(),
                   "model");
  if (ended)
    throw *ended;
  if (isDraining())
    throw ApiError(503, "H0477", "the server ends");
  if (more > options.maxTexts)
    throw ApiError(400, "H0380",
                   "the request has " + std::to_string(more) +
                       " texts, and the server makes at most " +
                       std::to_string(options.maxTexts) + " at a time");
  if (now + more > options.maxTexts)
    throw ApiError(503, "H0476",
                   std::to_string(now) + " texts are being made, of at most " +
                       std::to_string(options.maxTexts));
}

void heddle::rt::checkTokens(const std::vector<int32_t> &tokens, int64_t vocab,
                             const char *field) {
  if (tokens.empty())
    throw ApiError(400, "H0380", std::string("the ") + field + " has no tokens",
                   field);
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab)
      throw ApiError(400, "H0380",
                     "token " + std::to_string(token) +
                         " is not in the vocabulary of " +
                         std::to_string(vocab),
                     field);
}

std::vector<int32_t>
ServiceFront::tokensOf(const CompletionRequest::Prompt &prompt,
                       const io::Tokenizer *tokenizer, int64_t vocab,
                       const char *field) const {
  std::vector<int32_t> tokens;
  if (auto *given = std::get_if<std::vector<int32_t>>(&prompt))
    tokens = *given;
  else if (tokenizer)
    tokens = tokenizer->encodePrompt(std::get<std::string>(prompt));
  else
    throw ApiError(400, "H0380",
                   std::string("there is no tokenizer: give the ") + field +
                       " as tokens",
                   field);
  checkTokens(tokens, vocab, field);
  return tokens;
}

ServiceFront::Clock::time_point
ServiceFront::deadlineOf(const std::optional<double> &timeout) const {
  double seconds = std::min(options.seconds, timeout.value_or(options.seconds));
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(std::min(seconds, 1e9)));
}

//===----------------------------------------------------------------------===//
// End of the service
//===----------------------------------------------------------------------===//

void ServiceFront::postError(const ApiError &error) {
  server.post([this, error] {
    ended = error;
    failAll(error);
  });
}

int ServiceFront::run(const std::function<int()> &stopSignal) {
  server.start();
  try {
    int signal = work(stopSignal);
    // Refuse requests that arrived after the work had ended.
    postError({503, "H0477", "the server ends"});
    server.finish(options.http.seconds);
    return signal;
  } catch (const UserError &error) {
    postError({500, error.diagnostic.code, error.diagnostic.message});
    server.finish(2);
    throw;
  } catch (const std::exception &error) {
    Diagnostic unexpected = io::describeUnexpected(error);
    postError({500, unexpected.code, unexpected.message});
    server.finish(2);
    throw;
  }
}

void ServiceFront::giveUp(const Diagnostic &diagnostic) {
  postError({500, diagnostic.code, diagnostic.message});
  server.finish(2);
}
