//===- Steps.h - Run the step programs of a plan ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs training steps and evaluations: fills the inputs of a step program with
// a batch, submits it, and reads its results.
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
#include "heddle/runtime/optim/LearningRate.h"

#include <deque>
#include <functional>
#include <limits>
#include <optional>

namespace heddle::rt {

/// Returns the rows and columns of a program's batch over all ranks: the shape
/// of `ids` of the first stage. Throws H0385 when it has no `ids`, H0191 when
/// the plan has no such program.
BatchShape batchOf(const plan::Plan &plan, plan::ProgramKind kind);

/// Returns the output with this role; throws H0385 when the program has none.
const Value &requireOutput(const LoadedProgram &program, plan::PortRole role);

/// Returns this rank's shard of an input or output; throws H0385 for another
/// port.
RankShard partOf(const Session &session, const plan::Port &port);

/// The inputs of a program that belong to the batch, as far as this rank's
/// stage has them.
class BatchInputs {
public:
  /// With `staging`, inputs are written there, for a run that is submitted
  /// while earlier ones execute. `staging` must outlive this object.
  BatchInputs(Session &session, const LoadedProgram &program,
              const Staging *staging = nullptr);
  /// The value of `rows` for a full batch.
  static constexpr int64_t allRows = std::numeric_limits<int64_t>::max();
  /// Fills the inputs with this rank's share of the rows from row `first` on.
  /// With `masking`, tokens are masked; `begin` identifies the first token of
  /// the batch. With `rows`, only the first rows of a short batch have labels.
  void read(DataFeed &feed, int64_t first, const Masking *masking = nullptr,
            const MaskPosition &begin = {}, int64_t rows = allRows) const;
  void read(const InputFile &file, int64_t first, int64_t rows = allRows) const;
  /// Fills ids and labels with `token(index in the whole batch, which tokens)`.
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
    std::vector<ElementRange> runs;
  };
  static std::optional<DataFeed::What> tokensOf(plan::PortRole role);
  void dropLabels(const Port &port, int64_t rows) const;
  void mask(const Port &port, DataFeed::What what, const Masking &masking,
            const MaskPosition &begin) const;
  /// Fills inputs other than ids and labels with defaults: label weights 1,
  /// positions from 0, lengths of whole rows, segments 0.
  void fillPlain(const Port &port) const;
  template <typename Element, typename Function>
  void write(const Port &port, Function valueAt) const {
    auto *data = at<Element>(port);
    for (const ElementRange &run : port.runs)
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
  int64_t seq; ///< Tokens in a row.
  std::vector<Port> ports;
};

/// The result of a training step.
struct StepResult {
  int64_t index = 0; ///< Counted from 0.
  double loss = 0, gradNorm = 0, learningRate = 0;
  bool isFinite = true; ///< Loss and gradient norm are finite.
  /// The step updated nothing: no label counted, or the loss or the gradient
  /// norm is not finite.
  bool isSkipped = false;
};

/// Runs training steps: writes their inputs and reads their results.
class TrainSteps {
public:
  struct Options {
    Hyperparameters hyper;
    uint64_t seed = 0;
    int64_t skipped = 0; ///< Number of earlier steps that updated nothing.
    /// Skip steps that are not finite, unless too many follow each other. If
    /// false, the first such step ends the run.
    bool skipsNonfinite = false;
  };
  TrainSteps(Job &job, const Options &options);

  const LoadedProgram &program() const { return source; }
  const BatchShape &batch() const { return shape; }
  /// The inputs of the next step.
  const BatchInputs &tokens() const { return inputs; }

  /// Submits step `index`, counted from 0, on the inputs. A step without labels
  /// that count updates nothing.
  void submit(int64_t index, bool hasLabels, LaunchTime *times = nullptr);
  /// Number of steps that were submitted and not finished.
  int64_t pending() const { return int64_t(submitted.size()); }
  /// Limit of pending steps while the host continues. With 1, the host reads a
  /// step's results after it has submitted the next one.
  int64_t maxPending() const { return ahead; }
  /// Waits for the oldest pending step and returns its results. If that step is
  /// not finite, it and the pending steps after it update nothing; these are
  /// forgotten and must be submitted again.
  StepResult finish();
  /// Returns the step to submit next, counted from 0: the first whose update
  /// was not made, unless that step is skipped.
  int64_t next() const { return following; }
  /// Whether the states have exactly the updates of the steps before `next`.
  /// False if a plan without the state `nonfinite` has run a step that is not
  /// finite.
  bool keepsStates() const { return isSound; }
  /// Throws H0410 on every rank when the step ends the run.
  void requireFinite(const StepResult &result) const;
  /// Number of submitted steps that updated nothing. Step counters and the
  /// learning-rate schedule ignore them.
  int64_t skippedSteps() const { return skipped; }

private:
  /// Writes a scalar input of the next step, if it has that input.
  void give(const char *name, float number);

  struct Submitted {
    int64_t run; ///< Index in `staging` of the buffers with the run's inputs.
    int64_t index;
    double rate;
    bool isSkipped;
  };
  void forgetPending();
  bool maySkip() const;

  Job &job;
  const LoadedProgram &source;
  BatchShape shape;
  LearningRate learningRate;
  float weightDecay, maxNorm;
  uint64_t seed;
  const Value &lossPort;
  const Value *normPort;
  /// The state `nonfinite`: while it is 1, no step updates anything. Null if
  /// the plan has no such state.
  const Value *nonfinite;
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

/// Computes the mean loss over all labels of a file's rows, in order. The
/// result does not depend on the compiled batch size: in a short last batch
/// only the file's rows count.
class Evaluation {
public:
  /// `steps` is the number of batches, 0: all rows. Throws H0191 when the plan
  /// has no eval program, H0309 when no row has a label, and the errors of
  /// Masking::of.
  Evaluation(Job &job, const std::string &file, int64_t steps,
             const MaskOptions &mask);
  /// Evaluates `steps` batches of the rows of `--inputs`; starts again at the
  /// first row after the last.
  Evaluation(Job &job, std::unique_ptr<InputFile> file, int64_t steps);
  double meanLoss() {
    return *meanLossUnless([] { return false; });
  }
  /// Returns the mean loss; nothing if `isAbandoned` returned true. It is
  /// called before each batch and must return the same on all ranks.
  std::optional<double>
  meanLossUnless(const std::function<bool()> &isAbandoned);
  /// Number of labels in the evaluated rows.
  int64_t labels() const { return numLabels; }
  const io::TokenFile &file() const { return feed->file(0); }
  /// Number of tokens of `file` that are read.
  int64_t tokensRead() const { return rows * part.seq + 1; }

private:
  void takeRows(int64_t rows);
  int64_t countMasked();

  Job &job;
  const LoadedProgram &program;
  BatchShape part; ///< Batch of one run of the program.
  BatchInputs inputs;
  std::unique_ptr<DataFeed> feed; ///< Null if `given` is set.
  std::optional<Masking> masking; ///< Masks tokens of `feed`.
  std::unique_ptr<InputFile> given;
  int64_t rows = 0, numLabels = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPS_H
