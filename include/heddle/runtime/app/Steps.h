//===- Steps.h - Runs of a plan's step programs -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_STEPS_H
#define HEDDLE_RUNTIME_APP_STEPS_H

#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/optim/Schedule.h"

namespace heddle::rt {

/// The batch that a program's `ids` hold.
BatchShape batchOf(const plan::Plan &plan, const LoadedProgram &program);

/// The port of that name; throws H0385 when the program has none such.
const Value &requireInput(const LoadedProgram &program, const char *name);
const Value &requireOutput(const LoadedProgram &program, const char *name);

/// Runs training steps: writes their inputs, reads their results.
class TrainSteps {
public:
  TrainSteps(Job &job, uint64_t seed);

  const LoadedProgram &program() const { return source; }
  const BatchShape &batch() const { return shape; }
  /// Where the tokens of the next step go.
  int32_t *ids() const { return idsPort.as<int32_t>(); }
  int32_t *labels() const { return labelsPort.as<int32_t>(); }

  /// Runs step `index`, counted from 0, on the tokens in place. Throws H0410
  /// when the loss is not finite.
  void run(int64_t index, LaunchTime *times = nullptr);

  double loss() const { return *lossPort.as<float>(); }
  double gradNorm() const { return normPort ? *normPort->as<float>() : 0; }
  double learningRate(int64_t index) const { return schedule.rate(index + 1); }

private:
  Job &job;
  const LoadedProgram &source;
  BatchShape shape;
  Schedule schedule;
  uint64_t seed;
  const Value &idsPort, &labelsPort, &lossPort;
  const Value *normPort;
};

/// The mean loss over whole batches of a file, in order.
class Evaluation {
public:
  /// `steps` is the number of batches, 0: all. Throws H0191 when the plan has
  /// no eval program.
  Evaluation(Job &job, const std::string &file, int64_t steps);
  double meanLoss();
  int64_t tokens() const;

private:
  Job &job;
  const LoadedProgram &program;
  BatchShape part; ///< What one run of the program takes.
  DataFeed feed;
  int64_t runs = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPS_H
