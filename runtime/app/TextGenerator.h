//===- TextGenerator.h - One text, token by token ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TEXTGENERATOR_H
#define HEDDLE_RUNTIME_APP_TEXTGENERATOR_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/serve/Scheduler.h"

namespace heddle::rt {

/// Extends a text. Every rank computes; those that have the logits take the
/// same token of them, and the others are told.
class TextGenerator {
public:
  virtual ~TextGenerator() = default;
  /// The token after `tokens`; it is quick where these begin as those of the
  /// last call did.
  virtual int32_t next(const std::vector<int32_t> &tokens) = 0;
  /// Tokens that a text may have; nothing for any number.
  virtual std::optional<int64_t> maxTokens() const { return std::nullopt; }
  /// What a draft has guessed so far; null without one.
  virtual const SchedulerCounts *drafted() const { return nullptr; }
};

/// With the programs that the binary holds: those that serve, or `generate`.
/// `draft` guesses tokens for those that serve, if it is not null.
std::unique_ptr<TextGenerator> makeGenerator(Job &job, Job *draft,
                                             const SamplingOptions &sampling);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TEXTGENERATOR_H
