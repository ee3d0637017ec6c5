//===- TextGenerator.h - Generate one sequence ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates one sequence token by token, for the verbs `generate` and `chat`,
// with the programs that serve or with `generate`.
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
  /// like the argument of the last call, whose keys and values are in the
  /// cache.
  virtual int32_t next(const std::vector<int32_t> &tokens) = 0;
  /// Limit of tokens in a sequence; nothing: no limit.
  virtual std::optional<int64_t> maxTokens() const { return std::nullopt; }
  /// Counts of drafted tokens so far; null without a draft.
  virtual const SchedulerCounts *drafted() const { return nullptr; }
};

/// Creates a generator with the programs of the binary: those that serve, or
/// `generate`. `draft`, which may be null, is the draft model for the programs
/// that serve.
std::unique_ptr<TextGenerator> makeGenerator(Job &job, Job *draft,
                                             const SamplingOptions &sampling);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TEXTGENERATOR_H
