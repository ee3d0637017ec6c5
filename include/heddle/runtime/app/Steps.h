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

/// The rows and columns that one run of a program takes, over all ranks: those
/// of the first stage's `ids`. Throws H0385 when there are none, H0191 when the
/// plan has no such program.
BatchShape batchOf(const plan::Plan &plan, const std::string &kind);

/// The port of that name; throws H0385 when the program has none such.
const Value &requireOutput(const LoadedProgram &program, const char *name);

/// This rank's part of an input or output; throws H0385 when it is none.
Part partOf(const Session &session, const plan::Port &port);

/// The token inputs of a program, as far as this rank's stage has them.
class TokenInputs {
public:
  TokenInputs(Session &session, const LoadedProgram &program);
  /// Fills them with this rank's share of the rows from row `first` on.
  void read(DataFeed &feed, int64_t first) const;
  /// Fills them with `token(index in the whole, which tokens)`.
  template <typename Function> void fill(Function token) const {
    for (const Port &port : ports)
      for (const Run &run : port.runs)
        for (int64_t i = 0; i < run.count; ++i)
          port.data[run.local + i] = token(run.whole + i, port.what);
    store();
  }

private:
  struct Port {
    DataFeed::What what;
    const Value *value = nullptr;
    int32_t *data = nullptr; ///< The host's.
    std::vector<Run> runs;
  };
  void store() const;

  Session &session;
  std::vector<Port> ports;
};

/// Runs training steps: writes their inputs, reads their results.
class TrainSteps {
public:
  TrainSteps(Job &job, uint64_t seed);

  const LoadedProgram &program() const { return source; }
  const BatchShape &batch() const { return shape; }
  /// Where the tokens of the next step go.
  const TokenInputs &tokens() const { return inputs; }

  /// Runs step `index`, counted from 0, on the tokens in place. Throws H0410 on
  /// every rank when the loss is not finite.
  void run(int64_t index, LaunchTime *times = nullptr);

  double loss() const { return *job.session().load<float>(lossPort); }
  double gradNorm() const {
    return normPort ? *job.session().load<float>(*normPort) : 0;
  }
  double learningRate(int64_t index) const { return schedule.rate(index + 1); }

private:
  Job &job;
  const LoadedProgram &source;
  BatchShape shape;
  Schedule schedule;
  uint64_t seed;
  TokenInputs inputs;
  const Value &lossPort;
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
  const io::TokenFile &file() const { return feed.file(0); }

private:
  Job &job;
  const LoadedProgram &program;
  BatchShape part; ///< What one run of the program takes.
  TokenInputs inputs;
  DataFeed feed;
  int64_t runs = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPS_H
