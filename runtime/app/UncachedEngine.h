//===- UncachedEngine.h - Generation without a cache ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements Engine for binaries without a key-value cache, so that `serve`
// also works with a binary that trains.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H
#define HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H

#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/serve/Engine.h"

#include <optional>

namespace heddle::rt {

/// Runs the program `generate` of a training binary, which has no key-value
/// cache: for every new token the program computes the whole context again. To
/// fit the interface Engine, this class has pages that hold token ids instead
/// of keys and values.
class UncachedEngine : public Engine {
public:
  /// Throws H0191 when the plan has no program `generate`.
  explicit UncachedEngine(Job &job);

  const EngineLimits &limits() const override { return most; }
  void run(const std::vector<Feed> &feeds, float *logits) override;
  void follow() override;
  void finish() override;

private:
  /// Returns the logits [vocab] after `tokens`, on every rank.
  const std::vector<float> &compute(const std::vector<int32_t> &tokens);

  Job &job;
  const LoadedProgram &program;
  BatchInputs inputs;
  const Value *output; ///< Null on pipeline stages without the logits.
  EngineLimits most;
  /// The number of program runs so far. If this rank dies, the other ranks'
  /// error message gives this number as its step.
  int64_t numRuns = 0;
  std::vector<int32_t> cache; ///< The "cache": token ids, [pages][pageTokens].
  std::vector<float> values;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_UNCACHEDENGINE_H
