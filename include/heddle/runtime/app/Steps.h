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
#include "heddle/runtime/core/Staging.h"
#include "heddle/runtime/optim/Hyperparameters.h"
#include "heddle/runtime/optim/Schedule.h"

#include <deque>
#include <functional>
#include <limits>
#include <optional>

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
  /// With `staging`, which must outlive this, the inputs are of its next run.
  BatchInputs(Session &session, const LoadedProgram &program,
              const Staging *staging = nullptr);
  /// Rows of a batch that is not short.
  static constexpr int64_t allRows = std::numeric_limits<int64_t>::max();
  /// Fills them with this rank's share of the rows from row `first` on. With
  /// `masking` tokens are masked: the first of the batch stands at `begin`. Of
  /// a short batch only the first `rows` rows have labels.
  void read(DataFeed &feed, int64_t first, const Masking *masking = nullptr,
            const MaskPlace &begin = {}, int64_t rows = allRows) const;
  void read(const InputFile &file, int64_t first, int64_t rows = allRows) const;
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
  void dropLabels(const Port &port, int64_t rows) const;
  void mask(const Port &port, DataFeed::What what, const Masking &masking,
            const MaskPlace &begin) const;
  /// What a row of a token file says of the other inputs.
  void fillPlain(const Port &port) const;
  template <typename Element, typename Function>
  void write(const Port &port, Function valueAt) const {
    auto *data = at<Element>(port);
    for (const Run &run : port.runs)
      for (int64_t i = 0; i < run.count; ++i)
        data[run.local + i] = valueAt(run.whole + i);
  }
  /// Where the host writes the port's value.
  template <typename Element> Element *at(const Port &port) const {
    return staging ? staging->at<Element>(*port.value)
                   : session.at<Element>(*port.value);
  }
  void store() const;

  Session &session;
  const LoadedProgram &program;
  const Staging *staging;
  int64_t seq; ///< Tokens of a row.
  std::vector<Port> ports;
};

/// What came of a training step.
struct StepResult {
  int64_t index = 0; ///< Counted from 0.
  double loss = 0, gradNorm = 0, learningRate = 0;
  bool isFinite = true; ///< The loss and the gradient norm.
  /// It updated nothing, as no label counted in it or it is not finite.
  bool isSkipped = false;
};

/// Runs training steps: writes their inputs, reads their results.
class TrainSteps {
public:
  struct Options {
    Hyperparameters hyper;
    uint64_t seed = 0;
    int64_t skipped = 0; ///< The steps before the first that updated nothing.
    bool skipsNonfinite =
        false; ///< A few in a row; else the first ends the run.
  };
  TrainSteps(Job &job, const Options &options);

  const LoadedProgram &program() const { return source; }
  const BatchShape &batch() const { return shape; }
  /// Where the tokens of the next step go.
  const BatchInputs &tokens() const { return inputs; }

  /// Submits step `index`, counted from 0, on the tokens in place. A step of
  /// whose labels none counts updates nothing.
  void submit(int64_t index, bool hasLabels, LaunchTime *times = nullptr);
  /// Steps that were submitted and not finished.
  int64_t pending() const { return int64_t(submitted.size()); }
  /// Steps that may be pending while the host goes on: with one, it takes the
  /// result of a step when the next one is submitted.
  int64_t maxPending() const { return ahead; }
  /// Waits for the oldest pending step, and says what came of it. A step that
  /// is not finite updates nothing, and neither do those that are pending
  /// behind it: they are forgotten, to be submitted again.
  StepResult finish();
  /// The step to submit next, counted from 0: the first whose update is not
  /// made, or is not wanted of a step that is skipped.
  int64_t next() const { return following; }
  /// Whether the states are those after the steps before `next`: not where a
  /// plan without the state `nonfinite` has run a step that is not finite.
  bool keepsStates() const { return isSound; }
  /// Throws H0410 on every rank when the step ends the run.
  void requireFinite(const StepResult &result) const;
  /// The submitted steps that update nothing. Counters and the schedule pass
  /// them over.
  int64_t skippedSteps() const { return skipped; }

private:
  /// Writes a number that the next step reads, where it reads one.
  void give(const char *name, float number);

  struct Submitted {
    int64_t run; ///< Of `staging`.
    int64_t index;
    double rate;
    bool isSkipped;
  };
  void forgetPending();
  bool maySkip() const;

  Job &job;
  const LoadedProgram &source;
  BatchShape shape;
  Schedule schedule;
  float weightDecay, maxNorm;
  uint64_t seed;
  const Value &lossPort;
  const Value *normPort;
  const Value *nonfinite; ///< While it is 1 no step updates anything. Or null.
  Staging staging;
  BatchInputs inputs;
  int64_t skipped;
  bool skipsNonfinite;
  int64_t nonfiniteInRow = 0;
  int64_t following = 0;
  bool isSound = true;
  int64_t ahead;
  std::deque<Submitted> submitted;
};

/// The mean loss over all labels of a file's rows, in order. The last batch may
/// be short: the result does not depend on the batch that was compiled.
class Evaluation {
public:
  /// `steps` is the number of batches, 0: all rows. Throws H0191 when the plan
  /// has no eval program, H0309 when no row has a label, or what Masking::of
  /// throws.
  Evaluation(Job &job, const std::string &file, int64_t steps,
             const MaskOptions &mask);
  /// The same for the rows of `--inputs`, of which `steps` batches count modulo
  /// their number.
  Evaluation(Job &job, std::unique_ptr<InputFile> file, int64_t steps);
  double meanLoss() {
    return *meanLossUnless([] { return false; });
  }
  /// Absent when `isAbandoned`, which is asked before each batch and says the
  /// same on all ranks, does not want the rest.
  std::optional<double>
  meanLossUnless(const std::function<bool()> &isAbandoned);
  /// The labels in the rows that are evaluated.
  int64_t labels() const { return numLabels; }
  const io::TokenFile &file() const { return feed->file(0); }
  /// The tokens of `file` that are read.
  int64_t tokensRead() const { return rows * part.seq + 1; }

private:
  void takeRows(int64_t rows);
  int64_t countMasked();

  Job &job;
  const LoadedProgram &program;
  BatchShape part; ///< What one run of the program takes.
  BatchInputs inputs;
  std::unique_ptr<DataFeed> feed; ///< Or `given`.
  std::optional<Masking> masking; ///< Of `feed`.
  std::unique_ptr<InputFile> given;
  int64_t rows = 0, numLabels = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPS_H
