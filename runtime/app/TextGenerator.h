//===- TextGenerator.h - Generate one sequence ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates one sequence token by token, for the verbs `generate` and `chat`.
// Uses the programs of a serving binary, or the program `generate` of a
// training binary.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TEXTGENERATOR_H
#define HEDDLE_RUNTIME_APP_TEXTGENERATOR_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/serve/Scheduler.h"

namespace heddle::rt {

/// Extends a sequence token by token. Every rank takes part. The ranks that
/// have the logits sample the same token, and tell it to the other ranks.
class TextGenerator {
public:
  virtual ~TextGenerator() = default;
  /// Returns the token that follows `tokens`. This is fast if `tokens` begins
  /// with the tokens of the last call, because their keys and values are in the
  /// cache.
  virtual int32_t next(const std::vector<int32_t> &tokens) = 0;
  /// Limit of tokens in a sequence; nothing: no limit.
  virtual std::optional<int64_t> maxTokens() const { return std::nullopt; }
  /// The scheduler's counts, such as the number of tokens that the draft model
  /// has proposed. Null if there is no draft model.
  virtual const SchedulerCounts *drafted() const { return nullptr; }
};

/// Creates a generator, which runs the programs of a serving binary if there
/// are any, or else the program `generate`. `draft` is the draft model, or
/// null; only serving programs use one.
std::unique_ptr<TextGenerator> makeGenerator(Job &job, Job *draft,
                                             const SamplingOptions &sampling);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TEXTGENERATOR_H
