//===- CompiledEngine.h - The programs that serve ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEDENGINE_H
#define HEDDLE_RUNTIME_APP_COMPILEDENGINE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/PromptCuts.h"
#include "heddle/runtime/serve/Engine.h"

namespace heddle::rt {

/// Computes feeds with the programs `prefill`, `decode` and, where it has one,
/// `score` of a binary. Prompts are cut as `PromptCuts` says; of the other
/// kinds the smallest that has room is run. Ranks along `data` are groups with
/// whole weights, and compute feeds of their own.
class CompiledEngine : public Engine {
public:
  /// Throws H0191 when the plan has no cache.
  explicit CompiledEngine(Job &job);
  /// The engine of a model, and that of its draft. The other ranks follow the
  /// first one, which computes there what either is told on rank 0.
  static std::pair<std::unique_ptr<CompiledEngine>,
                   std::unique_ptr<CompiledEngine>>
  withDraft(Job &job, Job &draft);

  const EngineLimits &limits() const override { return most; }
  void run(const std::vector<Feed> &feeds, float *logits) override;
  void follow() override;
  void finish() override;

  /// `run` where every rank has the feeds. Writes the logits of each on the
  /// ranks of its group, of these on the last pipeline stage.
  void compute(const std::vector<Feed> &feeds, float *logits);
  /// The program that continues so many texts together.
  const LoadedProgram &decodeProgram(int64_t texts) const;
  /// Those that compute so many tokens of a prompt, one after the other.
  std::vector<const LoadedProgram *> prefillPrograms(int64_t tokens) const;
  /// That of this rank.
  int64_t group() const { return ownGroup; }
  /// The first of the ranks that have the logits of a group.
  int64_t speaker(int64_t group) const { return speakers[group]; }
  /// Brings rank 0 the logits that `compute` has written on other ranks. Every
  /// rank calls it.
  void bring(const std::vector<Feed> &feeds, float *logits);
  /// Writes the logits of all tokens of a feed, [tokens][vocab], where
  /// `compute` does; of at most `scoreTokens()` tokens. All ranks of the feed's
  /// group call it.
  void score(const Feed &feed, float *logits);
  /// Throws H0191 when the plan has no program `score`.
  int64_t scoreTokens() const;

private:
  static int64_t rowsOf(const LoadedProgram &program);
  static int64_t tokensOf(const LoadedProgram &program);
  void fill(const LoadedProgram &program,
            const std::vector<const Feed *> &feeds);
  void runOn(const LoadedProgram &program,
             const std::vector<const Feed *> &feeds);
  /// Writes the logits of the last token, where they are wanted.
  void prefill(const Feed &feed, float *logits);
  void findSpeakers();
  /// Copies a row of a program's logits, where this rank has them.
  void takeLogits(const LoadedProgram &program, int64_t row, float *logits);

  Job &job;
  CompiledEngine *draft = nullptr; ///< Which is followed, too.
  bool isDraft = false;
  int64_t numRuns = 0; ///< The steps of which ranks tell when one is missed.
  EngineLimits most;
  int64_t ownGroup = 0;
  std::vector<int64_t> speakers; ///< By group.
  bool hasLogits = false;        ///< Of the feeds of its group.
  /// By their sizes.
  std::vector<const LoadedProgram *> prefills, decodes;
  PromptCuts cuts;
  const LoadedProgram *scoring = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEDENGINE_H
