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
#include "heddle/runtime/app/InputFile.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Masking.h"
#include "heddle/runtime/optim/Schedule.h"

namespace heddle::rt {

/// The rows and columns that one run of a program takes, over all ranks: those
/// of the first stage's `ids`. Throws H0385 when there are none, H0191 when the
/// plan has no such program.
BatchShape batchOf(const plan::Plan &plan, plan::ProgramKind kind);

/// The port of that role; throws H0385 when the program has none such.
const Value &requireOutput(const LoadedProgram &program, plan::PortRole role);

/// This rank's part of an input or output; throws H0385 when it is none.
Part partOf(const Session &session, const plan::Port &port);

/// The inputs of a program that are of the batch, as far as this rank's stage
/// has them.
class BatchInputs {
public:
  BatchInputs(Session &session, const LoadedProgram &program);
  /// Fills them with this rank's share of the rows from row `first` on. With
  /// `masking` tokens are masked: the first of the batch stands at `begin`.
  void read(DataFeed &feed, int64_t first, const Masking *masking = nullptr,
            const MaskPlace &begin = {}) const;
  void read(const InputFile &file, int64_t first) const;
  /// Fills ids and labels with `token(index in the whole, which tokens)`.
  template <typename Function> void fill(Function token) const {
    for (const Port &port : ports)
      if (std::optional<DataFeed::What> what = tokensOf(port.role))
        write<int32_t>(port, [&](int64_t i) { return token(i, *what); });
      else
        fillPlain(port);
    store();
  }

private:
  struct Port {
    plan::PortRole role;
    std::string name;
    const Value *value;
    std::vector<Run> runs;
  };
  static std::optional<DataFeed::What> tokensOf(plan::PortRole role);
  void mask(const Port &port, DataFeed::What what, const Masking &masking,
            const MaskPlace &begin) const;
  /// What a row of a token file says of the other inputs.
  void fillPlain(const Port &port) const;
  template <typename Element, typename Function>
  void write(const Port &port, Function valueAt) const {
    auto *data = session.at<Element>(*port.value); // The host's.
    for (const Run &run : port.runs)
      for (int64_t i = 0; i < run.count; ++i)
        data[run.local + i] = valueAt(run.whole + i);
  }
  void store() const;

  Session &session;
  int64_t seq; ///< Tokens of a row.
  std::vector<Port> ports;
};

/// Runs training steps: writes their inputs, reads their results.
class TrainSteps {
public:
  /// `skipped`: the steps before the first one that updated nothing.
  TrainSteps(Job &job, uint64_t seed, int64_t skipped = 0);

  const LoadedProgram &program() const { return source; }
  const BatchShape &batch() const { return shape; }
  /// Where the tokens of the next step go.
  const BatchInputs &tokens() const { return inputs; }

  /// Runs step `index`, counted from 0, on the tokens in place. Throws H0410 on
  /// every rank when the loss is not finite.
  void run(int64_t index, LaunchTime *times = nullptr);

  double loss() const { return *job.session().load<float>(lossPort); }
  double gradNorm() const {
    return normPort ? *job.session().load<float>(*normPort) : 0;
  }
  double learningRate() const { return rate; }
  /// Whether the last step updated nothing, as no label counted in it.
  bool isSkipped() const {
    return weightPort && *job.session().load<float>(*weightPort) == 0;
  }
  /// The steps that updated nothing. Counters and the schedule pass them over.
  int64_t skippedSteps() const { return skipped; }

private:
  Job &job;
  const LoadedProgram &source;
  BatchShape shape;
  Schedule schedule;
  uint64_t seed;
  BatchInputs inputs;
  const Value &lossPort;
  const Value *normPort;
  const Value *weightPort;
  int64_t skipped;
  double rate = 0;
};

/// The mean loss over whole batches of a file, in order.
class Evaluation {
public:
  /// `steps` is the number of batches, 0: all. Throws H0191 when the plan has
  /// no eval program, or what Masking::of throws.
  Evaluation(Job &job, const std::string &file, int64_t steps,
             const MaskOptions &mask);
  /// The same for the batches of `--inputs`; without `steps` those that the
  /// rows of the file fill, at least one.
  Evaluation(Job &job, std::unique_ptr<InputFile> file, int64_t steps);
  double meanLoss();
  int64_t tokens() const;
  const io::TokenFile &file() const { return feed->file(0); }

private:
  void countRuns(int64_t batches, int64_t steps);

  Job &job;
  const LoadedProgram &program;
  BatchShape part; ///< What one run of the program takes.
  BatchInputs inputs;
  std::unique_ptr<DataFeed> feed; ///< Or `given`.
  std::optional<Masking> masking; ///< Of `feed`.
  std::unique_ptr<InputFile> given;
  int64_t runs = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPS_H
