//===- TextGenerator.cpp - Generate one sequence --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Three ways to generate: with a key-value cache, with a draft model, and
// without a cache.
//
//===----------------------------------------------------------------------===//

#include "TextGenerator.h"
#include "CompiledEngine.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <deque>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

/// Returns the position of the first token to which the next token attends: 0
/// while the sequence fits into the context. In a longer sequence it advances
/// only by half a context at a time, because each advance changes all
/// positions, so that the key-value cache must be computed again.
static int64_t firstSeen(int64_t tokens, int64_t context) {
  if (tokens <= context)
    return 0;
  int64_t step = std::max<int64_t>(context / 2, 1);
  return (tokens - context + step - 1) / step * step;
}

/// What a rank reports instead of the next token: `noChoice` if it has no
/// logits, and `notFinite` if its logits are infinite or NaN.
static constexpr int64_t noChoice = -1,
                         notFinite = std::numeric_limits<int64_t>::max();

static int64_t choose(Sampler &sampler, std::vector<float> &logits,
                      const std::vector<int32_t> &tokens) {
  auto vocab = int64_t(logits.size());
  if (!areFinite(logits.data(), vocab))
    return notFinite;
  return sampler.next(logits.data(), vocab, tokens);
}

/// Returns on all ranks the token that one rank has chosen.
static int32_t agree(Ranks &ranks, int64_t chosen) {
  int64_t token = ranks.maximum(chosen);
  if (token == notFinite)
    ranks.together([] {
      fail("H0481", "the model gives values that are not finite",
           "take weights that are finite; where they are, compile with "
           "--precision fp32");
    });
  return int32_t(token);
}

namespace {

/// Generates with the key-value cache of a serving binary.
class CachedGenerator : public TextGenerator {
public:
  CachedGenerator(Job &job, const SamplingOptions &sampling)
      : job(job), engine(job), sampler(sampling),
        logits(engine.limits().vocab) {}

  int32_t next(const std::vector<int32_t> &tokens) override {
    int64_t first =
        firstSeen(int64_t(tokens.size()), engine.limits().maxContext);
    compute({tokens.begin() + first, tokens.end()});
    bool speaks = job.ranks().rank() == engine.logitsRank(/*group=*/0);
    return agree(job.ranks(),
                 speaks ? choose(sampler, logits, tokens) : noChoice);
  }
  /// Returns no limit for a binary that trains: when a sequence exceeds the
  /// context, only the last half of the context is used to continue.
  std::optional<int64_t> maxTokens() const override {
    if (job.plan().findProgram(plan::ProgramKind::Train))
      return std::nullopt;
    return engine.limits().maxContext;
  }

private:
  /// Computes `logits` for the token after `tokens`. Skips tokens whose keys
  /// and values are in the cache.
  void compute(std::vector<int32_t> tokens) {
    auto end = tokens.begin() + std::min(tokens.size() - 1, known.size());
    size_t first = std::mismatch(tokens.begin(), end, known.begin()).first -
                   tokens.begin();
    // With a sliding attention window, the pages of tokens outside of it are
    // reused for later tokens. If a page that the next token needs was reused,
    // compute all tokens again.
    plan::CachePages sizes = engine.limits().cachePages();
    int64_t most =
        sizes.mostOf(engine.limits().maxContext, engine.limits().maxChunk);
    if (sizes.pagesFor(int64_t(known.size())) >
        sizes.firstSeen(int64_t(first)) + most)
      first = 0;
    Feed feed;
    feed.pages = engine.limits().pagesOfSequence(engine.limits().maxContext);
    while (first < tokens.size()) {
      size_t count =
          std::min<size_t>(engine.limits().maxChunk, tokens.size() - first);
      feed.tokens.assign(tokens.begin() + first,
                         tokens.begin() + first + count);
      feed.position = int64_t(first);
      first += count;
      feed.numLogits = first == tokens.size() ? 1 : 0;
      engine.compute({feed}, logits.data());
    }
    known = std::move(tokens);
  }

  Job &job;
  CompiledEngine engine;
  Sampler sampler;
  std::vector<float> logits;
  /// The tokens whose keys and values are in the cache.
  std::vector<int32_t> known;
};

/// Generates with a draft model. Rank 0 runs the scheduler and tells the other
/// ranks what to compute. A run may yield several tokens, so rank 0 buffers
/// those that `next` has not returned yet.
class DraftedGenerator : public TextGenerator, SequenceListener {
public:
  DraftedGenerator(Job &job, Job &draft, const SamplingOptions &sampling)
      : job(job), engines(CompiledEngine::withDraft(job, draft)),
        sampling(sampling),
        scheduler(*engines.first, *this,
                  /*checksPages=*/false, engines.second.get()) {}

  int32_t next(const std::vector<int32_t> &tokens) override {
    if (tokens != told)
      begin(tokens);
    int64_t token = noChoice;
    if (job.isFirst()) {
      while (waiting.empty())
        scheduler.step(Scheduler::Clock::now());
      engines.first->finish();
      token = waiting.front();
      waiting.pop_front();
    } else {
      engines.first->follow();
    }
    told.push_back(agree(job.ranks(), token));
    return told.back();
  }
  std::optional<int64_t> maxTokens() const override {
    return scheduler.longest();
  }
  const SchedulerCounts *drafted() const override {
    return &scheduler.counts();
  }

private:
  /// Starts a sequence with the prompt `tokens`. The scheduler does not compute
  /// the first tokens again if an earlier sequence began with the same tokens
  /// and its pages are still in the cache.
  void begin(const std::vector<int32_t> &tokens) {
    scheduler.cancel(text);
    waiting.clear();
    SequenceRequest request;
    request.id = ++text;
    request.prompt = told = tokens;
    request.maxTokens = scheduler.longest();
    request.sampling = sampling;
    scheduler.submit(std::move(request));
  }
  bool onToken(uint64_t, int32_t token,
               const std::vector<TokenLogprob> &) override {
    waiting.push_back(token);
    return false;
  }
  void onEnd(uint64_t, FinishReason end) override {
    if (end == FinishReason::NotFinite)
      waiting.push_back(notFinite);
  }

  Job &job;
  std::pair<std::unique_ptr<CompiledEngine>, std::unique_ptr<CompiledEngine>>
      engines;
  SamplingOptions sampling;
  Scheduler scheduler;
  uint64_t text = 0;           ///< Id of the last sequence.
  std::vector<int32_t> told;   ///< Tokens that the caller has received.
  std::deque<int64_t> waiting; ///< Tokens that were generated ahead.
};

/// Generates without a cache: computes the whole context for each token.
class UncachedGenerator : public TextGenerator {
public:
  UncachedGenerator(Job &job, const SamplingOptions &sampling)
      : job(job), program(job.program(plan::ProgramKind::Generate)),
        context(batchOf(job.plan(), plan::ProgramKind::Generate).seq),
        inputs(job.session(), program),
        logits(program.output(plan::PortRole::Logits)), sampler(sampling) {}

  int32_t next(const std::vector<int32_t> &tokens) override {
    const int32_t *first =
        tokens.data() + firstSeen(int64_t(tokens.size()), context);
    int64_t seen = tokens.data() + tokens.size() - first;
    inputs.fill([&](int64_t index, DataFeed::What) {
      return index < seen ? first[index] : 0;
    });
    if (const Value *position = program.input(plan::PortRole::Position)) {
      *job.session().at<int32_t>(*position) = int32_t(seen - 1);
      job.session().store(*position);
    }
    job.session().run(program);
    return agree(job.ranks(), logits ? sample(tokens) : noChoice);
  }

private:
  int64_t sample(const std::vector<int32_t> &tokens) {
    int64_t vocab = std::min(job.plan().vocabSize, logits->numElements());
    values.resize(vocab);
    io::convertElements(job.session().load(*logits), plan::nameOf(logits->type),
                        values.data(), "F32", vocab);
    return choose(sampler, values, tokens);
  }

  Job &job;
  const LoadedProgram &program;
  int64_t context;
  BatchInputs inputs;
  const Value *logits; ///< Null on pipeline stages without logits.
  Sampler sampler;
  std::vector<float> values;
};

} // namespace

std::unique_ptr<TextGenerator>
heddle::rt::makeGenerator(Job &job, Job *draft,
                          const SamplingOptions &sampling) {
  if (draft)
    return std::make_unique<DraftedGenerator>(job, *draft, sampling);
  if (job.plan().findProgram(plan::ProgramKind::Prefill))
    return std::make_unique<CachedGenerator>(job, sampling);
  return std::make_unique<UncachedGenerator>(job, sampling);
}
