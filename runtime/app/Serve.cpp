//===- Serve.cpp - The verb serve -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `serve` answers OpenAI's API over HTTP. It loads the model, its tokenizer and
// its chat template, and runs a Service on rank 0. The engines of the other
// ranks run the programs that rank 0's engine runs.
//
//===----------------------------------------------------------------------===//

#include "CompiledEncoder.h"
#include "CompiledEngine.h"
#include "ModelText.h"
#include "SentenceText.h"
#include "UncachedEngine.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/serve/AccessLog.h"
#include "heddle/runtime/serve/Service.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

using namespace heddle;
using namespace heddle::rt;

/// Returns the model's name for clients, which is the name of its directory.
static std::string modelName(const plan::Plan &plan,
                             const JobOptions &options) {
  std::filesystem::path path = modelDirectory(plan, options);
  if (!path.has_filename())
    path = path.parent_path();
  return path.empty() ? "model" : path.filename().string();
}

/// Normalizes an origin to the form that browsers send, without a trailing
/// slash.
static std::string originOf(std::string text) {
  if (text == "*" || text == "null")
    return text;
  while (!text.empty() && text.back() == '/')
    text.pop_back();
  size_t host = text.find("://");
  if (host == std::string::npos || host == 0)
    fail("H0190", "--allow-origin: \"" + text + "\" is not an origin",
         "write scheme, host and port: --allow-origin http://" + text);
  if (size_t path = text.find('/', host + 3); path != std::string::npos)
    fail("H0190", "--allow-origin: \"" + text + "\" is a page, not an origin",
         "leave out the path: --allow-origin " + text.substr(0, path));
  return text;
}

static ServiceOptions serviceOf(const ServeOptions &options,
                                const plan::Plan &plan) {
  ServiceOptions service;
  service.http.host = options.host;
  service.http.port = uint16_t(options.port);
  for (const std::string &origin : options.allowedOrigins)
    service.http.allowedOrigins.push_back(originOf(origin));
  if (!options.accessLog.empty()) {
    auto log = std::make_shared<AccessLog>(options.accessLog);
    service.http.onAnswered = [log](const HttpAccess &access) {
      log->write(access);
    };
  }
  service.models = options.names;
  if (service.models.empty())
    service.models = {modelName(plan, options.job)};
  service.apiKey = options.apiKey;
  service.seconds = double(options.requestTimeout);
  service.maxTexts = options.maxTexts;
  service.checksPages = std::getenv("HEDDLE_CHECK_PAGES") != nullptr;
  return service;
}

namespace {

/// Tells clients of the error with which this process ends, such as a lost
/// rank. The heartbeat's thread calls `say`, because this rank's engine may be
/// computing at that time.
class LastWord {
public:
  void set(Service *newService) {
    std::lock_guard lock(mutex);
    service = newService;
  }
  void say(const Diagnostic &diagnostic) {
    std::lock_guard lock(mutex);
    if (service)
      service->giveUp(diagnostic);
  }

private:
  std::mutex mutex;
  Service *service = nullptr;
};

} // namespace

/// Serves on rank 0; the other ranks compute what rank 0's engine tells them.
static int serve(const ServeOptions &options, Service &service,
                 LastWord &lastWord) {
  fprintf(stderr, "serving at http://%s/v1\n",
          hostAndPort(options.host, service.port()).c_str());
  lastWord.set(&service);
  try {
    int signal = service.run(stopSignal);
    lastWord.set(nullptr);
    return signal;
  } catch (...) {
    lastWord.set(nullptr);
    throw;
  }
}

namespace {

/// The model that answers requests, by generating or encoding.
struct ServedModel {
  std::unique_ptr<Job> draftJob; ///< Null without a draft.
  std::unique_ptr<Engine> draft; ///< Null without a draft.
  /// Set for models that generate; else `encoder` is set.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Encoder> encoder;
  std::unique_ptr<io::Tokenizer> tokenizer;
  std::optional<io::ChatTemplate> chat;
  SentenceText sentence; ///< For models that encode.

  ServedModel(Job &job, std::unique_ptr<Job> draft,
              const ServeOptions &options);
  std::unique_ptr<Service> prepare(Job &job, const ServeOptions &options);
  void follow() { engine ? engine->follow() : encoder->follow(); }
  void finish() { engine ? engine->finish() : encoder->finish(); }
};

} // namespace

ServedModel::ServedModel(Job &job, std::unique_ptr<Job> guesses,
                         const ServeOptions &options)
    : draftJob(std::move(guesses)) {
  std::string directory = modelDirectory(job.plan(), options.job);
  if (job.plan().findProgram(plan::ProgramKind::Encode)) {
    encoder = std::make_unique<CompiledEncoder>(
        job, findPooling(directory, options.pooling));
    sentence = readSentenceText(directory, job.plan().maxPositions,
                                options.promptName);
  } else if (!job.plan().findProgram(plan::ProgramKind::Prefill)) {
    engine = std::make_unique<UncachedEngine>(job);
  } else if (!draftJob) {
    engine = std::make_unique<CompiledEngine>(job);
  } else {
    std::tie(engine, draft) = CompiledEngine::withDraft(job, *draftJob);
  }
  tokenizer = findTokenizer(job.plan(), options.job, sentence.lowersCase);
  chat = io::ChatTemplate::find(directory);
}

std::unique_ptr<Service> ServedModel::prepare(Job &job,
                                              const ServeOptions &options) {
  ServiceOptions service = serviceOf(options, job.plan());
  if (encoder) {
    const int64_t most = encoder->limits().maxTokens;
    TextRules rules = sentence.rules;
    if (options.truncates)
      rules.cutAt(most);
    else if (rules.maxTokens > 0 && rules.maxTokens < most)
      fprintf(stderr, "texts are cut at %lld tokens: %s\n",
              static_cast<long long>(rules.maxTokens), sentence.cutBy.c_str());
    return serveEmbeddings(*encoder, {tokenizer.get(), rules}, service);
  }
  TextDefaults defaults =
      textDefaults(job.plan(), options.job, tokenizer.get());
  // OpenAI's API samples by default, at temperature 1.
  if (!defaults.samples)
    defaults.sampling.temperature = 1;
  ServedText text{tokenizer.get(), chat ? &*chat : nullptr, defaults.ends,
                  defaults.sampling};
  return serveCompletions(*engine, draft.get(), text, service);
}

int heddle::rt::runServe(const ServeOptions &options, Ranks &ranks) {
  auto lastWord = std::make_shared<LastWord>();
  ranks.setWitness([lastWord](const Diagnostic &diagnostic, int) {
    lastWord->say(diagnostic);
  });
  Job job(options.job, ranks);
  std::unique_ptr<Job> draft = job.openDraft(options.job);
  std::optional<ServedModel> model;
  ranks.together([&] { model.emplace(job, std::move(draft), options); });
  // Bind the port first: loading weights takes long, and the port may be taken.
  std::unique_ptr<Service> service;
  ranks.together([&] {
    if (job.isFirst())
      service = model->prepare(job, options);
  });
  loadWeights(job, options.job);
  if (model->draftJob)
    loadWeights(*model->draftJob, options.job.ofDraft());
  ranks.together([&] {
    if (job.isFirst())
      service->listen();
  });
  catchStopSignals();
  if (!job.isFirst()) {
    model->follow();
    return 0;
  }
  int signal = serve(options, *service, *lastWord);
  model->finish();
  return 128 + signal;
}
