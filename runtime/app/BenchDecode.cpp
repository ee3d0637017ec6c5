//===- BenchDecode.cpp - The verb bench with --decode ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `bench --decode` measures a binary that was compiled for serving: how fast it
// computes prompts, generates tokens for several sequences together, and
// decodes speculatively.
//
//===----------------------------------------------------------------------===//

#include "CompiledEngine.h"
#include "KernelTimes.h"
#include "MemoryRate.h"
#include "Timing.h"
#include "Trace.h"
#include "heddle/runtime/app/Progress.h"
#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/core/Philox.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/serve/Scheduler.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// The number of tokens after which the memory's read rate is measured again.
static constexpr int64_t tokensPerRead = 4;
/// The number of times each kernel is launched. The printed table has the
/// shortest time.
static constexpr int64_t kernelRuns = 20;

namespace {

/// The sequences of a measurement. Sequence i belongs to group i modulo the
/// number of groups, where a group of ranks is one replica of the model.
struct BenchBatch {
  int64_t count = 1, context = 1, tokens = 1;

  /// Throws H0166 when the sequences do not fit into the key-value cache.
  BenchBatch(int64_t count, std::optional<int64_t> context,
             std::optional<int64_t> tokens, const EngineLimits &limits);
  /// Returns the number of sequences that belong to `group` if there are
  /// `groups` groups.
  int64_t ofGroup(int64_t group, int64_t groups) const {
    return (count - group + groups - 1) / groups;
  }
  /// Returns a feed, which is the tokens that one run computes for a sequence.
  /// Its token ids are ones that every vocabulary has.
  Feed feed(int64_t seq, int64_t position, int64_t tokens,
            const EngineLimits &limits) const;
};

/// Runs the sequences and measures times.
class DecodeBench {
public:
  DecodeBench(Job &job, CompiledEngine &engine, BenchBatch batch)
      : job(job), engine(engine), batch(batch),
        logits(batch.count * engine.limits().vocab) {}

  /// Computes the prompts. Each group of ranks (a replica of the model)
  /// computes its prompts one after the other, in parallel with other groups. A
  /// group with fewer than `atLeast` prompts repeats some.
  void runPrompts(int64_t atLeast);
  void runTokens();
  void printKernels();
  /// Computes a prompt and tokens after it, and writes a trace of them.
  void writeTrace(const std::string &path);
  /// Returns the bytes of memory that this rank must read and write to generate
  /// one token of each sequence: the weights, each once, and the key-value
  /// cache.
  double bytesOfRun() const;

  std::vector<double> promptSeconds, tokenSeconds, processorSeconds;
  /// Read rates of memory, measured on this rank between tokens, in bytes per
  /// second.
  std::vector<double> readRates;

private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  void prompt(int64_t seq);
  /// Number of sequences that this rank's group computes.
  int64_t own() const {
    return batch.ofGroup(engine.group(), engine.limits().groups);
  }
  /// Computes the token at `position` of every sequence.
  void token(int64_t position);
  void printKernels(const LoadedProgram &program);

  Job &job;
  CompiledEngine &engine;
  BenchBatch batch;
  std::vector<float> logits;
};

} // namespace

BenchBatch::BenchBatch(int64_t count, std::optional<int64_t> givenContext,
                       std::optional<int64_t> givenTokens,
                       const EngineLimits &limits)
    : count(count), tokens(givenTokens.value_or(std::clamp<int64_t>(
                        limits.maxContext - givenContext.value_or(1), 1, 64))) {
  const int64_t most = limits.maxRows * limits.groups;
  if (count > most)
    fail("H0166",
         "--batch " + std::to_string(count) +
             ": the binary continues at most " + std::to_string(most) +
             " texts together",
         "give --batch " + std::to_string(most) +
             ", or compile with --max-batch " + std::to_string(count));
  context = givenContext.value_or(
      std::clamp<int64_t>(limits.maxContext - tokens, 1, 512));
  if (context + tokens > limits.maxContext)
    fail("H0166",
         std::to_string(context) + " tokens and " + std::to_string(tokens) +
             " more: a text may have " + std::to_string(limits.maxContext),
         "lower --context and --tokens, or compile with --max-context " +
             std::to_string(context + tokens) +
             " if the model has so many positions");
  int64_t pages = ofGroup(0, limits.groups) *
                  limits.cachePages().mostOf(context + tokens, limits.maxChunk);
  if (pages > limits.numPages)
    fail("H0166",
         "the texts need " + std::to_string(pages) +
             " pages of the cache, which has " +
             std::to_string(limits.numPages),
         "lower --batch or --context, or compile with a larger --kv-cache");
}

Feed BenchBatch::feed(int64_t seq, int64_t position, int64_t tokens,
                      const EngineLimits &limits) const {
  Feed feed;
  feed.sequence = uint64_t(seq);
  feed.position = position;
  for (int64_t i = 0; i < tokens; ++i) {
    PhiloxWords words = philox(0, uint64_t(position + i), uint32_t(seq), 0);
    feed.tokens.push_back(int32_t(words[0] % uint64_t(limits.vocab)));
  }
  feed.pages =
      limits.pagesOfSequence(context + this->tokens, seq / limits.groups);
  feed.numLogits = 1;
  feed.group = seq % limits.groups;
  return feed;
}

void DecodeBench::prompt(int64_t seq) {
  const EngineLimits &limits = engine.limits();
  for (int64_t at = 0; at < batch.context; at += limits.maxChunk) {
    int64_t count = std::min(limits.maxChunk, batch.context - at);
    Feed feed = batch.feed(seq, at, count, limits);
    feed.numLogits = at + count == batch.context ? 1 : 0;
    engine.compute({feed}, logits.data());
  }
}

void DecodeBench::runPrompts(int64_t atLeast) {
  const int64_t groups = engine.limits().groups;
  int64_t most = batch.ofGroup(0, groups);
  for (int64_t run = 0; run < std::max(atLeast, most); ++run) {
    job.ranks().exchange("");
    Clock::time_point begin = Clock::now();
    if (own() > 0)
      prompt(run % own() * groups + engine.group());
    promptSeconds.push_back(since(begin));
  }
}

void DecodeBench::token(int64_t position) {
  std::vector<Feed> feeds;
  for (int64_t seq = 0; seq < batch.count; ++seq)
    feeds.push_back(batch.feed(seq, position, 1, engine.limits()));
  job.ranks().exchange("");
  double processor = rt::processorSeconds();
  Clock::time_point begin = Clock::now();
  engine.compute(feeds, logits.data());
  tokenSeconds.push_back(since(begin));
  processorSeconds.push_back(rt::processorSeconds() - processor);
}

void DecodeBench::runTokens() {
  MemoryRate memory(job);
  // Warm-up: the first accesses to memory pages are slow, so do not measure
  // them.
  for (int64_t i = 0; i < 2; ++i) {
    token(batch.context);
    memory.measure();
  }
  tokenSeconds.clear();
  processorSeconds.clear();
  for (int64_t i = 0; i < batch.tokens; ++i) {
    if (i % tokensPerRead == 0) {
      job.ranks().exchange("");
      readRates.push_back(memory.measure());
    }
    token(batch.context + i);
  }
}

double DecodeBench::bytesOfRun() const {
  if (own() == 0)
    return 0;
  ProgramNeeds needs =
      needsOf(job.plan(), engine.decodeProgram(own()).program());
  double cache = 0; // Bytes of the cache, summed over all runs.
  for (int64_t i = 0; i < batch.tokens; ++i)
    cache += needs.cacheBytesAt(batch.context + i + 1);
  return needs.stateBytes + double(own()) * cache / double(batch.tokens);
}

void DecodeBench::printKernels(const LoadedProgram &program) {
  const CommandList &commands = program.commands();
  std::vector<LaunchTime> times(commands.size());
  KernelTimes kernels(job.plan());
  std::vector<LaunchTime> best;
  for (int64_t run = 0; run < kernelRuns; ++run) {
    job.ranks().exchange("");
    if (engine.group() != 0)
      continue;
    job.session().run(program, {}, times.data());
    if (best.empty())
      best = times;
    for (size_t i = 0; i < times.size(); ++i)
      if (times[i].end - times[i].begin < best[i].end - best[i].begin)
        best[i] = times[i];
  }
  if (!job.isFirst())
    return;
  kernels.add(commands, best);
  printf("%s:\n", program.program().name.c_str());
  kernels.print();
}

/// Measures the kernels of two programs on the first group of ranks: the decode
/// program, and the prefill program for a prompt's last chunk. A program keeps
/// its inputs until another program runs, so each program is measured with the
/// inputs of its last run.
void DecodeBench::printKernels() {
  printKernels(
      engine.decodeProgram(batch.ofGroup(/*group=*/0, engine.limits().groups)));
  prompt(0);
  int64_t rest = (batch.context - 1) % engine.limits().maxChunk + 1;
  // If the prompt's last chunk has at most 1 + maxGuesses tokens (as many as
  // one run verifies for a sequence in speculative decoding), the engine
  // computes it with the decode program, one token in each row. Then there is
  // no prefill program to measure.
  if (rest > 1 + engine.limits().maxGuesses)
    printKernels(*engine.prefillPrograms(rest).back());
}

void DecodeBench::writeTrace(const std::string &path) {
  std::vector<const LoadedProgram *> programs =
      engine.prefillPrograms(batch.context);
  programs.push_back(&engine.decodeProgram(own()));
  Trace trace(path, programs, job.ranks().rank());
  engine.setTrace(&trace);
  job.ranks().exchange("");
  if (own() > 0)
    prompt(engine.group());
  for (int64_t i = 0; i < std::min(batch.tokens, int64_t(Trace::maxSteps)); ++i)
    token(batch.context + i);
  engine.setTrace(nullptr);
  job.device().synchronize();
  std::string written = trace.write(job.plan());
  if (job.isFirst())
    fprintf(stderr, "wrote %s\n", written.c_str());
}

/// Returns the sum of a value over all ranks.
static double sumOfRanks(Ranks &ranks, double value) {
  double sum = 0;
  for (const std::string &text : ranks.exchange(std::to_string(value)))
    sum += std::stod(text);
  return sum;
}

/// Returns the largest of the ranks' times, since all wait for the slowest.
static double slowestOfRanks(Ranks &ranks, double seconds) {
  return double(ranks.maximum(int64_t(seconds * 1e9))) / 1e9;
}

namespace {

/// Records which sequences have started.
class StartedSequences : public SequenceListener {
public:
  bool onToken(uint64_t id, int32_t,
               const std::vector<TokenLogprob> &) override {
    ids.insert(id);
    return false;
  }
  void onEnd(uint64_t, FinishReason) override {}
  std::set<uint64_t> ids;
};

/// Tokens that the model generates after the prompts.
struct ChosenTokens {
  double seconds = 0;
  int64_t tokens = 0, guesses = 0, right = 0;
  double perSecond() const { return double(tokens) / seconds; }
  /// For each sequence, the mean number of drafted tokens that the target model
  /// accepts in a run (`right` counts them over all runs). A run yields these
  /// tokens and one more, which the target model chooses itself. So `tokens -
  /// right` is the number of runs.
  double rightPerStep() const {
    return tokens > right ? double(right) / double(tokens - right) : 0;
  }
};

} // namespace

/// Submits the sequences, and runs until each has `count` new tokens.
static ChosenTokens chooseTokens(Scheduler &scheduler, StartedSequences &begun,
                                 const BenchBatch &batch,
                                 const EngineLimits &limits, int64_t count) {
  for (int64_t seq = 0; seq < batch.count; ++seq) {
    SequenceRequest request;
    request.id = uint64_t(seq) + 1;
    request.prompt = batch.feed(seq, 0, batch.context, limits).tokens;
    request.maxTokens = count;
    scheduler.submit(std::move(request));
  }
  auto step = [&] { scheduler.step(Scheduler::Clock::now()); };
  while (int64_t(begun.ids.size()) < batch.count && !scheduler.isIdle())
    step();
  SchedulerCounts before = scheduler.counts();
  auto start = std::chrono::steady_clock::now();
  while (!scheduler.isIdle())
    step();
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const SchedulerCounts &after = scheduler.counts();
  return {time.count(), after.newTokens - before.newTokens,
          after.guesses - before.guesses,
          after.rightGuesses - before.rightGuesses};
}

/// Generates greedily, with the draft model or without it. Rank 0 runs the
/// scheduler, which tells the other ranks what to compute. So only rank 0
/// returns the time and the numbers of tokens. The prompts are not computed
/// again, since an earlier run has left them in the key-value cache.
static ChosenTokens chooseTokens(Job &job, CompiledEngine &engine,
                                 Engine *draft, const BenchBatch &batch) {
  if (!job.isFirst()) {
    engine.follow();
    return {};
  }
  StartedSequences begun;
  Scheduler scheduler(engine, begun, /*checksPages=*/false, draft);
  chooseTokens(scheduler, begun, batch, engine.limits(), /*count=*/1);
  begun.ids.clear();
  ChosenTokens chosen =
      chooseTokens(scheduler, begun, batch, engine.limits(), batch.tokens);
  engine.finish();
  return chosen;
}

namespace {

/// The figures that are printed.
struct DecodeFigures {
  BenchBatch batch;
  int64_t ranks, groups, threads;
  std::string program = {};
  std::string rateMethod = {}; ///< What is measured as `readRate`.
  /// The numbers of kernel launches and of submissions to the device (such as
  /// CUDA graphs) in a run of the decode program.
  int64_t launches = 0, submissions = 0;
  double bytes = 0, readRate = 0, processor = 0;
  double first = 0, median = 0, shortest = 0, longest = 0;
  /// Results of generation with the draft model and without it, or nothing if
  /// the binary has no draft model.
  std::optional<std::pair<ChosenTokens, ChosenTokens>> withAndWithout = {};

  double perSecond() const { return double(batch.count) / median; }
  /// Prompt tokens per second of all groups of ranks together. Each group
  /// computes one prompt at a time.
  double prefillPerSecond() const {
    return double(std::min(batch.count, groups) * batch.context) / first;
  }
  /// Whether the bytes of a run were read faster than the measured read rate of
  /// memory. Then some of them came from the CPU's caches.
  bool isInCache() const { return bytes / median > readRate; }
  void printJson() const;
  void print() const;
};

} // namespace

void DecodeFigures::printJson() const {
  JsonLine line("bench");
  line.add("program", program)
      .add("ranks", ranks)
      .add("groups", groups)
      .add("threads", threads)
      .add("batch", batch.count)
      .add("context", batch.context)
      .add("tokens", batch.tokens)
      .add("median_s", median)
      .add("min_s", shortest)
      .add("max_s", longest)
      .add("processor_s", processor)
      .add("tokens_per_s", perSecond())
      .add("bytes_per_token", bytes / double(batch.count))
      .add("stream_gb_s", readRate / 1e9)
      .add("fraction_of_stream", bytes / median / readRate)
      .addRaw("in_cache", isInCache() ? "true" : "false")
      .add("launches", launches)
      .add("submissions", submissions)
      .add("first_token_s", first)
      .add("prefill_tokens_per_s", prefillPerSecond());
  if (withAndWithout) {
    const auto &[with, without] = *withAndWithout;
    nlohmann::ordered_json draft = {
        {"guesses", with.guesses},
        {"right", with.right},
        {"right_per_step", with.rightPerStep()},
        {"tokens_per_s", with.perSecond()},
        {"tokens_per_s_without", without.perSecond()}};
    line.addRaw("draft", draft.dump());
  }
  printf("%s\n", line.text().c_str());
}

void DecodeFigures::print() const {
  printf("%lld texts after %lld tokens: median %.3f ms (%.3f to %.3f), %.1f "
         "tokens/s\n",
         static_cast<long long>(batch.count),
         static_cast<long long>(batch.context), 1e3 * median, 1e3 * shortest,
         1e3 * longest, perSecond());
  printf("%s a token: %.1f GB/s, ",
         formatBytes(int64_t(bytes / double(batch.count))).c_str(),
         bytes / median / 1e9);
  if (isInCache())
    printf("in cache; %s %.1f from memory\n", rateMethod.c_str(),
           readRate / 1e9);
  else
    printf("%.1f%% of the %.1f that %s\n", 100 * bytes / median / readRate,
           readRate / 1e9, rateMethod.c_str());
  printf("%lld launches of %s, which the device is told of in %lld\n",
         static_cast<long long>(launches), program.c_str(),
         static_cast<long long>(submissions));
  printf("first token after %.3f s, %.0f tokens/s of the prompt\n", first,
         prefillPerSecond());
  if (!withAndWithout)
    return;
  const auto &[with, without] = *withAndWithout;
  printf("the draft: %.2f right guesses a step of a text (%lld of %lld), %.1f "
         "tokens/s; %.1f without it\n",
         with.rightPerStep(), static_cast<long long>(with.right),
         static_cast<long long>(with.guesses), with.perSecond(),
         without.perSecond());
}

/// Returns the size of the last-level cache.
static int64_t lastCacheBytes() {
  constexpr int64_t unknown = int64_t(256) << 20;
  int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : unknown;
}

static DecodeFigures figuresOf(Job &job, CompiledEngine &engine,
                               DecodeBench &bench, const BenchBatch &batch) {
  Ranks &ranks = job.ranks();
  const int64_t groups = engine.limits().groups;
  DecodeFigures figures{batch, ranks.size(), groups, job.device().threads()};
  const LoadedProgram &program = engine.decodeProgram(batch.ofGroup(0, groups));
  const CommandList &commands = program.commands();
  figures.program = program.program().name;
  figures.rateMethod = MemoryRate::method(job.plan());
  for (size_t i = 0; i < commands.size(); ++i)
    figures.launches += commands.info(i).kernel() >= 0;
  figures.submissions = int64_t(commands.submissions());
  figures.bytes = sumOfRanks(ranks, bench.bytesOfRun());
  // Take each rank's best measurement of the read rate: other programs can only
  // slow it down.
  const std::vector<double> &rates = bench.readRates;
  figures.readRate =
      sumOfRanks(ranks, bench.bytesOfRun() > 0
                            ? *std::max_element(rates.begin(), rates.end())
                            : 0);
  figures.processor = sumOfRanks(ranks, medianOf(bench.processorSeconds));
  figures.first = slowestOfRanks(ranks, medianOf(bench.promptSeconds));
  figures.median = slowestOfRanks(ranks, medianOf(bench.tokenSeconds));
  figures.shortest = slowestOfRanks(ranks, bench.tokenSeconds.front());
  figures.longest = slowestOfRanks(ranks, bench.tokenSeconds.back());
  // If the bytes that a token needs exceed all caches, they were read from
  // memory. Then memory's read rate is at least these bytes divided by the time
  // of a token.
  if (figures.bytes > double(ranks.size() * lastCacheBytes()))
    figures.readRate =
        std::max(figures.readRate, figures.bytes / figures.median);
  return figures;
}

/// Returns all pairs of a context and a number of sequences.
static std::vector<BenchBatch> batchesOf(const BenchOptions &options,
                                         const EngineLimits &limits) {
  std::vector<std::optional<int64_t>> contexts(options.contexts.counts.begin(),
                                               options.contexts.counts.end());
  if (contexts.empty())
    contexts.push_back(std::nullopt);
  std::vector<BenchBatch> batches;
  for (std::optional<int64_t> context : contexts)
    for (int64_t count : options.batches.counts)
      batches.emplace_back(count, context, options.tokens, limits);
  return batches;
}

static void measure(const BenchOptions &options, Job &job,
                    CompiledEngine &engine, Engine *draft,
                    const BenchBatch &batch) {
  DecodeBench bench(job, engine, batch);
  bench.runPrompts(4);
  bench.runTokens();
  DecodeFigures figures = figuresOf(job, engine, bench, batch);
  if (draft) {
    ChosenTokens without = chooseTokens(job, engine, nullptr, batch);
    figures.withAndWithout = {chooseTokens(job, engine, draft, batch), without};
  }
  if (job.isFirst()) {
    options.json ? figures.printJson() : figures.print();
    fflush(stdout);
  }
  if (options.kernels && !options.json)
    bench.printKernels();
}

int heddle::rt::runBenchDecode(const BenchOptions &options, Ranks &ranks) {
  Job job(options.job, ranks);
  std::unique_ptr<Job> draftJob = job.openDraft(options.job);
  std::unique_ptr<CompiledEngine> engine, draft;
  std::vector<BenchBatch> batches;
  ranks.together([&] {
    if (draftJob)
      std::tie(engine, draft) = CompiledEngine::withDraft(job, *draftJob);
    else
      engine = std::make_unique<CompiledEngine>(job);
    batches = batchesOf(options, engine->limits());
  });
  loadWeights(job, options.job);
  if (draft)
    loadWeights(*draftJob, options.job.ofDraft());
  for (const BenchBatch &batch : batches)
    measure(options, job, *engine, draft.get(), batch);
  if (!options.trace.empty())
    DecodeBench(job, *engine, batches.back()).writeTrace(options.trace);
  return 0;
}
