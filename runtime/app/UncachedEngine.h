//===- UncachedEngine.h - Texts without a cache ----------------- -*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H
#define HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H

#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/serve/Engine.h"

#include <optional>

namespace heddle::rt {

/// Serves with the program `generate` of a binary that trains: its pages hold
/// tokens, and every token computes the whole window again.
class UncachedEngine : public Engine {
public:
  /// Throws H0191 when the plan has no such program.
  explicit UncachedEngine(Job &job);

  const EngineLimits &limits() const override { return most; }
  void run(const std::vector<Feed> &feeds, float *logits) override;
  void follow() override;
  void finish() override;

private:
  /// Computes the logits [vocab] after `tokens`, on every rank.
  const std::vector<float> &compute(const std::vector<int32_t> &tokens);

  Job &job;
  const LoadedProgram &program;
  BatchInputs inputs;
  const Value *output; ///< Null on the stages that do not have it.
  EngineLimits most;
  int64_t numRuns = 0; ///< The steps of which ranks tell when one is missed.
  std::vector<int32_t> cache; ///< [pages][pageTokens].
  std::vector<float> values;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H
