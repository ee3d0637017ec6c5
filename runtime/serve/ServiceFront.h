//===- ServiceFront.h - What all services share -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of a service that completions and embeddings share: paths, API key,
// errors, metrics and shutdown. CompletionService and EmbeddingService derive
// from it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_SERVICEFRONT_H
#define HEDDLE_LIB_RUNTIME_SERVE_SERVICEFRONT_H

#include "Metrics.h"
#include "WorkThread.h"
#include "heddle/runtime/serve/CompletionRequest.h"
#include "heddle/runtime/serve/Service.h"

namespace heddle::rt {

inline const char *const jsonType = "application/json";

/// A random seed from the system. std::random_device would need glibc 2.36.
uint64_t randomSeed();

/// The base of all services. Protected members are used on the server's thread,
/// except `work`, which runs on the thread of `run`, and `read`, which has a
/// thread of its own.
class ServiceFront : public Service {
public:
  uint16_t port() const override { return server.port(); }
  void listen() override { server.listen(); }
  int run(const std::function<int()> &stopSignal) override;
  void giveUp(const Diagnostic &diagnostic) override;

protected:
  using Reply = std::shared_ptr<HttpReply>;
  using Clock = std::chrono::steady_clock;

  explicit ServiceFront(const ServiceOptions &options);
  /// Ends the threads of the service. The destructor of a derived class must
  /// call this function first.
  void stop() {
    reading.finish();
    server.finish(0);
  }

  /// A function that starts the answer to a request. It is called on the
  /// server's thread, after `read` has returned it.
  using Answer = std::function<void(const Reply &)>;
  /// `paths` lists the paths of the requests that `read` handles. `read` parses
  /// a request and returns its Answer. Both `read` and the Answer may throw an
  /// ApiError to refuse the request. `read` runs on a thread of its own, since
  /// long texts take time, and must not change the service.
  virtual std::vector<std::string> paths() const = 0;
  virtual Answer read(const HttpRequest &http) = 0;
  /// Returns the most tokens that a sequence (or a text to embed) may have.
  virtual int64_t longest() const = 0;
  virtual bool isDraining() const = 0;
  /// Computes until a stop signal has come and all work is done; returns the
  /// signal.
  virtual int work(const std::function<int()> &stopSignal) = 0;
  /// Reports an error to all clients; called on the server's thread.
  virtual void failAll(const ApiError &error) = 0;

  /// Sends an answer that is not streamed, and counts it in the metrics.
  void send(const Reply &reply, const std::string &path, int status,
            const std::string &type, const std::string &body);
  /// Answers a request with an error. The error is counted in the metrics, and
  /// its reason is in the access log.
  void sendError(const Reply &reply, const std::string &path,
                 const ApiError &error);
  /// Throws an ApiError for an unknown model name (an empty one is allowed).
  /// Also throws if `now` sequences, which the service has, and `more` new ones
  /// together exceed the limit.
  void admit(const std::string &model, int64_t now, int64_t more) const;
  /// Returns the tokens of a prompt. Throws an ApiError if there is none, or
  /// one is outside the vocabulary.
  std::vector<int32_t> tokensOf(const CompletionRequest::Prompt &prompt,
                                const io::Tokenizer *tokenizer, int64_t vocab,
                                const char *field) const;
  /// Returns the time until which a request must be answered.
  Clock::time_point deadlineOf(const std::optional<double> &timeout) const;

  const ServiceOptions options;
  const int64_t created;
  Metrics metrics;
  HttpServer server;

private:
  void answer(HttpRequest http, const Reply &reply);
  /// Runs `action`. If it throws an ApiError, answers the request with that
  /// error.
  void orRefuse(const Reply &reply, const std::string &path,
                const std::function<void()> &action);
  void readThenAnswer(HttpRequest http, const Reply &reply);
  void route(HttpRequest &http, const Reply &reply);
  void checkKey(const HttpRequest &http) const;
  void postError(const ApiError &error);
  bool isNamed(const std::string &model) const;
  nlohmann::ordered_json modelJson(const std::string &name) const;
  std::string modelsJson() const;

  /// The error with which the service has ended. Later requests get it as their
  /// answer. Used on the server's thread.
  std::optional<ApiError> ended;
  WorkThread reading;
};

/// Throws an ApiError if there is no token, or one is outside the vocabulary.
void checkTokens(const std::vector<int32_t> &tokens, int64_t vocab,
                 const char *field);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_SERVICEFRONT_H
