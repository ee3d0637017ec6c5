//===- ServiceFront.h - What all services answer alike ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// std::random_device would ask for a function that came with glibc 2.36.
uint64_t randomSeed();

/// Paths, keys, errors, figures and the end of a service. What is protected is
/// for the server's thread, but for `work` and `failAll`.
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
  /// Must be called first when a service is destroyed.
  void stop() {
    reading.finish();
    server.finish(0);
  }

  /// What the server's thread does for a request that has been read.
  using Answer = std::function<void(const Reply &)>;
  /// The paths that take requests for the model, and what is done for one;
  /// reading it, and what is done, throw an ApiError for what is refused. A
  /// thread of its own calls `read`, which takes its time for a long text and
  /// changes nothing.
  virtual std::vector<std::string> paths() const = 0;
  virtual Answer read(const HttpRequest &http) = 0;
  /// Tokens that a text can have.
  virtual int64_t longest() const = 0;
  virtual bool isDraining() const = 0;
  /// Computes until a signal comes and all is done; returns it.
  virtual int work(const std::function<int()> &stopSignal) = 0;
  /// Tells all clients of an error; the server's thread calls it.
  virtual void failAll(const ApiError &error) = 0;

  /// Answers at once, and counts it.
  void send(const Reply &reply, const std::string &path, int status,
            const std::string &type, const std::string &body);
  /// The same of an error, which the access log has, too.
  void sendError(const Reply &reply, const std::string &path,
                 const ApiError &error);
  /// Throws unless the model has that name, or none is given, and there is room
  /// for `more` texts beside `now`.
  void admit(const std::string &model, int64_t now, int64_t more) const;
  /// The tokens of what a client gave. Throws unless there is one, and all are
  /// in the vocabulary.
  std::vector<int32_t> tokensOf(const CompletionRequest::Prompt &prompt,
                                const io::Tokenizer *tokenizer, int64_t vocab,
                                const char *field) const;
  /// When a request must have its answer.
  Clock::time_point deadlineOf(const std::optional<double> &timeout) const;

  const ServiceOptions options;
  const int64_t created;
  Metrics metrics;
  HttpServer server;

private:
  void answer(HttpRequest http, const Reply &reply);
  /// Answers with what `action` throws.
  void orRefuse(const Reply &reply, const std::string &path,
                const std::function<void()> &action);
  void readThenAnswer(HttpRequest http, const Reply &reply);
  void route(HttpRequest &http, const Reply &reply);
  void checkKey(const HttpRequest &http) const;
  void postError(const ApiError &error);
  bool isNamed(const std::string &model) const;
  nlohmann::ordered_json modelJson(const std::string &name) const;
  std::string modelsJson() const;

  /// The error with which the service has ended, for what comes later; known to
  /// the server's thread.
  std::optional<ApiError> ended;
  WorkThread reading;
};

/// Throws unless all tokens are in the vocabulary, and there is one.
void checkTokens(const std::vector<int32_t> &tokens, int64_t vocab,
                 const char *field);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_SERVICEFRONT_H
