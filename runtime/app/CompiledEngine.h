//===- CompiledEngine.h - Generation with a compiled binary -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements Engine with the compiled programs `prefill`, `decode` and `score`:
// computes the tokens that the scheduler selects for each sequence (a Feed) on
// all ranks of a job.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEDENGINE_H
#define HEDDLE_RUNTIME_APP_COMPILEDENGINE_H

#include "ServingPrograms.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/PromptCuts.h"
#include "heddle/runtime/serve/Engine.h"

namespace heddle::rt {

/// Computes feeds. A feed is the tokens of one sequence that one run computes,
/// such as a chunk of its prompt. A chunk runs with prefill programs, which
/// PromptCuts chooses for the chunk's length. Single tokens of many sequences
/// run with the smallest decode program that has enough rows. Each group of
/// ranks is a replica along the mesh axis `data`, has all weights, and computes
/// the feeds of its own sequences.
class CompiledEngine : public Engine {
public:
  /// Throws H0191 when the plan has no key-value cache.
  explicit CompiledEngine(Job &job);
  /// Creates the engines of a model and of its draft model. Rank 0 calls `run`
  /// of either engine. The other ranks call `follow` of the model's engine
  /// only, which runs the draft model too when rank 0 asks for it.
  static std::pair<std::unique_ptr<CompiledEngine>,
                   std::unique_ptr<CompiledEngine>>
  withDraft(Job &job, Job &draft);

  const EngineLimits &limits() const override { return most; }
  void run(const std::vector<Feed> &feeds, float *logits) override;
  void follow() override;
  void finish() override;

  /// Does the work of `run` on one rank, which already has the feeds (for each
  /// sequence, the tokens of this run). The logits of a feed are written only
  /// on the ranks that run the last pipeline stage in the feed's replica of the
  /// model.
  void compute(const std::vector<Feed> &feeds, float *logits);
  /// Returns the smallest program that decodes `texts` sequences together.
  const LoadedProgram &decodeProgram(int64_t texts) const;
  /// Returns the programs that compute a prompt of `tokens` tokens, in the
  /// order in which they run.
  std::vector<const LoadedProgram *> prefillPrograms(int64_t tokens) const;
  /// The group of this rank: the index of its replica along the mesh axis
  /// `data`.
  int64_t group() const { return ownGroup; }
  /// Returns the first rank that has the logits of a group (a replica of the
  /// model).
  int64_t logitsRank(int64_t group) const { return logitsRanks[group]; }
  /// Sends to rank 0 the logits that `compute` has written on other ranks.
  /// Collective.
  void gatherLogits(const std::vector<Feed> &feeds, float *logits);
  /// Writes the logits of all tokens of a feed (tokens of one sequence),
  /// [tokens][vocab], on the ranks that run the last pipeline stage. The feed
  /// has at most `scoreTokens()` tokens. All ranks of the feed's replica of the
  /// model call this function.
  void score(const Feed &feed, float *logits);
  /// Returns the number of tokens in a run of the program `score`. Throws H0191
  /// if the binary has no such program.
  int64_t scoreTokens() const;
  /// The next runs of programs are recorded in `trace`; null: they are not.
  void setTrace(Trace *trace) { programs.setTrace(trace); }

private:
  static int64_t rowsOf(const LoadedProgram &program);
  static int64_t tokensOf(const LoadedProgram &program);
  void fill(const LoadedProgram &program,
            const std::vector<const Feed *> &feeds);
  void runOn(const LoadedProgram &program,
             const std::vector<const Feed *> &feeds);
  /// Computes a chunk of a prompt, and writes the logits of its last token if
  /// they are wanted.
  void prefill(const Feed &feed, float *logits);
  void findSpeakers();
  /// Copies the logits that a program has computed for a row. Does nothing on
  /// ranks without logits.
  void takeLogits(const LoadedProgram &program, int64_t row, float *logits);

  Job &job;
  /// Set only in the target model's engine: the engine of its draft model, or
  /// null. `follow` of the target model's engine runs the draft model's engine
  /// when rank 0 asks for it.
  CompiledEngine *draft = nullptr;
  bool isDraft = false;
  /// The number of program runs so far. If this rank dies, the other ranks'
  /// error message gives this number as its step.
  int64_t numRuns = 0;
  EngineLimits most;
  int64_t ownGroup = 0;
  std::vector<int64_t> logitsRanks; ///< First rank with the logits, by group.
  bool hasLogits = false; ///< Whether this rank has the logits of its group.
  /// Sorted by size.
  std::vector<const LoadedProgram *> prefills, decodes;
  PromptCuts cuts;
  const LoadedProgram *scoring = nullptr;
  ServingPrograms programs;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEDENGINE_H
