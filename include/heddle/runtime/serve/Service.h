//===- Service.h - Models over HTTP --------------------------- -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_SERVICE_H
#define HEDDLE_RUNTIME_SERVE_SERVICE_H

#include "heddle/runtime/io/ChatTemplate.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Encoder.h"
#include "heddle/runtime/serve/Engine.h"
#include "heddle/runtime/serve/HttpServer.h"
#include "heddle/runtime/serve/Sampler.h"
#include "heddle/runtime/serve/TextPreparer.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

/// How a model's tokens are texts.
struct ServedText {
  const io::Tokenizer *tokenizer = nullptr; ///< Null: tokens only.
  const io::ChatTemplate *chat = nullptr;   ///< Null: no chats.
  std::vector<int64_t> ends;                ///< Tokens that end a text.
  SamplingOptions sampling; ///< Where a request does not say it.
};

struct ServiceOptions {
  HttpOptions http;
  /// Its names, of which clients may ask for each; answers have the first.
  std::vector<std::string> models = {"model"};
  std::string apiKey;       ///< Empty: everybody may ask.
  int64_t maxTexts = 256;   ///< At a time, those that wait included.
  double seconds = 600;     ///< For a request, if it does not want less.
  bool checksPages = false; ///< See PageChecker.
};

/// Answers OpenAI's requests with a model. The model is used by the thread that
/// calls `run`, connections by another one.
class Service {
public:
  virtual ~Service() = default;
  virtual uint16_t port() const = 0;
  /// Takes connections, which wait until `run`. Throws H0150 when somebody else
  /// listens by now.
  virtual void listen() = 0;
  /// Serves until `stopSignal` gives something else than 0, finishes what was
  /// begun, and returns it. When the model throws, clients are told, and the
  /// error is thrown on.
  virtual int run(const std::function<int()> &stopSignal) = 0;
  /// Tells clients of the error with which this process is about to end. Any
  /// thread may call it while `run` goes on; returns when they have been told.
  virtual void giveUp(const Diagnostic &diagnostic) = 0;
};

/// Completions and chats. Takes the port; throws H0150 when it cannot. `draft`
/// guesses tokens for the engine (Scheduler.h), if it is not null. Both and
/// what `text` names must live longer.
std::unique_ptr<Service> serveCompletions(Engine &engine, Engine *draft,
                                          const ServedText &text,
                                          const ServiceOptions &options);
/// Embeddings. If `texts` has no tokenizer, of tokens only.
std::unique_ptr<Service> serveEmbeddings(Encoder &encoder, TextPreparer texts,
                                         const ServiceOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SERVICE_H
