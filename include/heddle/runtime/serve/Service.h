//===- Service.h - OpenAI's API for compiled models -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The HTTP services: completions and chats (CompletionService.cpp), and
// embeddings (EmbeddingService.cpp). The verb `serve` runs one of them.
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

/// How a model's tokens relate to text: tokenizer, chat template, end tokens.
struct ServedText {
  const io::Tokenizer *tokenizer = nullptr; ///< Null: only token ids.
  const io::ChatTemplate *chat = nullptr;   ///< Null: no chats.
  std::vector<int64_t> ends;                ///< Tokens that end a sequence.
  SamplingOptions sampling;                 ///< Defaults of requests.
};

struct ServiceOptions {
  HttpOptions http;
  /// Names by which clients may ask for the model; answers use the first one.
  std::vector<std::string> models = {"model"};
  std::string apiKey;     ///< Empty: no authorization.
  int64_t maxTexts = 256; ///< Limit of choices that wait or run.
  /// Time limit of a request; the request may shorten it.
  double seconds = 600;
  bool checksPages = false; ///< See PageChecker.
};

/// A server of one model. The thread that calls `run` runs the model. Another
/// thread serves the connections.
class Service {
public:
  virtual ~Service() = default;
  virtual uint16_t port() const = 0;
  /// Accepts connections, whose requests wait until `run`. Throws H0150 when
  /// another process listens on the port by now.
  virtual void listen() = 0;
  /// Serves until `stopSignal` is not 0, completes the requests that have
  /// begun, and returns the signal. An error of the model is reported to the
  /// clients and thrown.
  virtual int run(const std::function<int()> &stopSignal) = 0;
  /// Reports to clients the error with which this process is about to end, and
  /// returns when that is sent. Any thread may call it during `run`.
  virtual void giveUp(const Diagnostic &diagnostic) = 0;
};

/// Creates the service of completions and chats and binds its port; throws
/// H0150 when that fails. `draft` is the draft model of speculative decoding,
/// or null. Engines, tokenizer and template must outlive the service.
std::unique_ptr<Service> serveCompletions(Engine &engine, Engine *draft,
                                          const ServedText &text,
                                          const ServiceOptions &options);
/// Creates the service of embeddings. Without a tokenizer it accepts only token
/// ids.
std::unique_ptr<Service> serveEmbeddings(Encoder &encoder, TextPreparer texts,
                                         const ServiceOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SERVICE_H
