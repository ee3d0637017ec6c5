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

#include "heddle/PlanFormat/UpdateCounts.h"
#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/InputFile.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/KeptLayers.h"
#include "heddle/runtime/app/Masking.h"
#include "heddle/runtime/core/Staging.h"
#include "heddle/runtime/optim/Hyperparameters.h"
#include "heddle/runtime/optim/LearningRate.h"

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>

namespace heddle::rt {

/// Returns the rows and columns of a program's batch over all ranks: the shape
/// of `ids` of the first stage. Throws H0385 when it has no `ids`, H0191 when
/// the plan has no such program.
BatchShape batchOf(const plan::Plan &plan, plan::ProgramKind kind);

/// Returns the program's output with this role, such as its loss. Throws H0385
/// when there is none.
const Value &requireOutput(const LoadedProgram &program, plan::PortRole role);

/// Returns which elements of an input or output this rank stores. Throws H0385
/// if the port is neither.
RankShard partOf(const Session &session, const plan::Port &port);

/// The inputs of a program that are read from the batch, such as ids and
/// labels, as far as the programs of this rank's pipeline stage have them.
class BatchInputs {
public:
  /// If `staging` is given, inputs are written to its buffers, so that they can
  /// be prepared while earlier steps execute. `staging` must outlive this
  /// object.
  BatchInputs(Session &session, const LoadedProgram &program,
              const Staging *staging = nullptr);
  /// The value of `rows` for a full batch.
  static constexpr int64_t allRows = std::numeric_limits<int64_t>::max();
  /// Fills the inputs with the rows from row `first` on that this rank
  /// computes. If `masking` is given, tokens are masked; `begin` is the
  /// position of the batch's first token. If `rows` is less than the batch, the
  /// rows after the first `rows` get no labels.
  void read(DataFeed &feed, int64_t first, const Masking *masking = nullptr,
            const MaskPosition &begin = {}, int64_t rows = allRows) const;
  void read(const InputFile &file, int64_t first, int64_t rows = allRows) const;
  /// Fills ids and labels with `token(index, what)`. The index is that of a
  /// token in the batch of all ranks; `what` says whether it is an input or a
  /// label.
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
  /// Returns the memory to which the host writes the input.
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

class OverflowSearch;

/// A train program of the plan, with the buffers of its inputs and results.
struct TrainProgram {
  /// `searched` is OverflowSearch::result, or null.
  TrainProgram(Job &job, const LoadedProgram &source, const Value *searched);

  const LoadedProgram &source;
  const Value &loss;
  /// Other outputs that are read after a step. Null if the step lacks them.
  const Value *norm, *labels, *rate;
  Staging staging;
  BatchInputs inputs;
};

/// The result of a training step.
struct StepResult {
  int64_t index = 0; ///< Counted from 0.
  double loss = 0, gradNorm = 0, learningRate = 0;
  std::string phase; ///< Empty if the plan has only one train program.
  /// The layers that the step has computed; nullopt: the plan drops no layers.
  std::optional<KeptLayers> kept;
  bool isFinite = true;  ///< Loss and gradient norm are finite.
  bool hasLabels = true; ///< The loss counts at least one label of the batch.
  /// The step made no update: the device skipped it, for example because the
  /// batch had no label, or because the loss or gradient norm is not finite.
  bool isSkipped = false;
  /// The factor that the step's gradients had before the optimizer divided them
  /// by it; nullopt: the plan has no loss scale.
  std::optional<double> lossScale;
  /// The bits that the step leaves for the weights of each group of modules
  /// that is quantized.
  std::map<std::string, int64_t> bits;
  /// The step overflowed with the least loss scale.
  bool isScaleUsedUp = false;
  /// The module in which a step with a loss scale overflowed, as
  /// OverflowSearch::find returns it.
  std::string overflowModule;
};

/// Runs training steps: writes their inputs and reads their results.
class TrainSteps {
public:
  struct Options {
    Hyperparameters hyper;
    uint64_t seed = 0;
    int64_t steps = 0; ///< Number of earlier steps.
    plan::UpdateCounts updates = plan::UpdateCounts(); ///< Of earlier steps.
    /// If true, steps whose loss or gradient norm is not finite are skipped,
    /// unless too many of them follow each other. If false, the first such step
    /// ends the run.
    bool skipsNonfinite = false;
    /// If true, all steps run the program of the last phase, for measurements.
    bool onlyLastPhase = false;
  };
  TrainSteps(Job &job, const Options &options);
  ~TrainSteps();

  /// The program that runs in step `index`, counted from 0.
  const LoadedProgram &program(int64_t index) const {
    return programs[phaseAt(index)].source;
  }
  /// All train programs, in the order of their phases.
  std::vector<const LoadedProgram *> allPrograms() const;
  const BatchShape &batch() const { return shape; }
  /// The inputs from which step `index`, if it is submitted next, reads its
  /// batch.
  const BatchInputs &tokens(int64_t index) const {
    return programs[phaseAt(index)].inputs;
  }
  /// Whether step `index` runs another program than the pending steps before
  /// it. They must be finished before its inputs are written, because the
  /// programs use the same memory.
  bool changesProgram(int64_t index) const {
    return !submitted.empty() && phaseAt(index) != submitted.back().phase;
  }

  /// Submits step `index`, counted from 0, with the current inputs.
  void submit(int64_t index, LaunchTime *times = nullptr);
  /// Number of steps that were submitted and not finished.
  int64_t pending() const { return int64_t(submitted.size()); }
  /// How many submitted steps may be unfinished while the host prepares the
  /// next batch. With 1, the host reads a step's results after it has submitted
  /// the next step.
  int64_t maxPending() const { return ahead; }
  /// Waits for the oldest pending step and returns its results. If its loss or
  /// gradient norm is not finite, neither this step nor the pending steps after
  /// it update the states. Those pending steps are dropped, and must be
  /// submitted again. With a loss scale, this is so only if the scale can fall
  /// no further; the steps after any other overflow are as they would be.
  StepResult finish();
  /// Returns the index of the step to submit next, counted from 0. After a step
  /// whose loss or gradient norm is not finite, this is the index of the step
  /// after it if `skipsNonfinite`, else the index of the same step.
  int64_t next() const { return following; }
  /// Whether the states have exactly the updates of the steps before `next`.
  /// False after a step whose loss or gradient norm was not finite, if the plan
  /// has no state `nonfinite` that could suppress its update.
  bool keepsStates() const { return isSound; }
  /// Throws H0410 on all ranks if the loss or gradient norm of `result` is not
  /// finite and such a step may not be skipped; H0419 or H0420 if the plan has
  /// a loss scale that can fall no further.
  void requireFinite(const StepResult &result) const;
  /// The numbers of updates after the finished steps, also of the steps before
  /// a resume. The learning-rate schedule counts updates, and so may phases.
  const plan::UpdateCounts &updateCounts() const { return known; }

private:
  /// Sets the scalar input `name` of the next step. Does nothing if the program
  /// has no such input.
  void give(TrainProgram &program, const char *name, float number);
  Outcomes drawLayers(TrainProgram &program, int64_t index);
  /// The index in `programs` of the one that runs in step `index`.
  size_t phaseAt(int64_t index) const {
    return onlyLastPhase
               ? programs.size() - 1
               : plan::phaseAt(phases, index + 1, known.expected(index + 1));
  }
  std::vector<double> sumLayerFlops() const;

  struct Submitted {
    size_t phase; ///< The index of the program in `programs`.
    /// The number of the run in the program's `staging`.
    int64_t run;
    int64_t index;
    std::vector<double> rates; ///< The rates among which the step selects.
    Outcomes kept;
  };
  std::vector<double> giveRates(TrainProgram &program);
  std::optional<KeptLayers> describe(const Submitted &step) const;
  void forgetPending();
  [[noreturn]] void failScale(const StepResult &result) const;
  bool maySkip() const;

  Job &job;
  BatchShape shape;
  LearningRate learningRate;
  float weightDecay, maxNorm;
  uint64_t seed;
  /// The state `nonfinite`, which the device sets to 1 after a step whose loss
  /// or gradient norm is not finite; then no step updates anything. Null if the
  /// plan has no such state.
  const Value *nonfinite;
  /// The state in which the device counts updates. Null if the plan has none;
  /// then every step with a finite loss and norm makes an update.
  const Value *updates;
  /// The state with the loss scale of the next step. Null if the plan has no
  /// loss scale.
  const Value *lossScale;
  std::map<std::string, const Value *> quantized; ///< See quantizedBits.
  double scale = 1; ///< The loss scale of the oldest pending step.
  /// Null if the plan has no loss scale.
  std::unique_ptr<OverflowSearch> overflow;
  /// For each layer that may be dropped, its model FLOPs in a step, over all
  /// ranks.
  std::vector<double> layerFlops;
  std::deque<TrainProgram> programs; ///< In the order of their phases.
  std::vector<plan::Phase> phases;   ///< Those of `programs`.
  bool onlyLastPhase;
  /// The numbers of updates when the last finished steps had ended. The steps
  /// that are pending may make further updates.
  plan::UpdateCounts known;
  bool skipsNonfinite;
  int64_t nonfiniteInRow = 0;
  int64_t following;
  bool isSound = true;
  int64_t ahead;
  std::deque<Submitted> submitted;
};

/// Computes the mean loss over all labels of a file's rows, in order. The
/// result does not depend on the compiled batch size, because padding rows of a
/// short last batch do not count.
class Evaluation {
public:
  /// `steps` is the number of batches, 0: all rows. Throws H0191 when the plan
  /// has no eval program, H0309 when no row has a label, and the errors of
  /// Masking::of.
  Evaluation(Job &job, const std::string &file, int64_t steps,
             const MaskOptions &mask);
  /// Evaluates `steps` batches of the rows of `--inputs`; after the last row it
  /// starts again at the first one.
  Evaluation(Job &job, std::unique_ptr<InputFile> file, int64_t steps);
  double meanLoss() {
    return *meanLossUnless([] { return false; });
  }
  /// Returns the mean loss, or nothing if `isAbandoned` returned true.
  /// `isAbandoned` is called before each batch and must return the same value
  /// on all ranks.
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
