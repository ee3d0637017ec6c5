//===- ScheduleCheck.cpp - Checks and simulates schedules -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks pipeline schedules for completeness, order and deadlocks, and computes
// when each forward and backward pass runs. The check for deadlocks and the
// computation of times share one simulation, which executes the passes of all
// stages together.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <array>

using namespace heddle::pipe;
using Kind = Action::Kind;

static std::string nameOf(int64_t stage) {
  return "stage " + std::to_string(stage);
}

int64_t heddle::pipe::chunksOf(const Schedule &schedule) {
  int64_t chunks = 1;
  for (const Line &line : schedule)
    for (const Action &action : line)
      chunks = std::max(chunks, action.chunk + 1);
  return chunks;
}

//===----------------------------------------------------------------------===//
// One line
//===----------------------------------------------------------------------===//

namespace {

/// Which kinds of passes (forward, backward, and the halves of a backward pass)
/// a stage has run for one micro-batch of one chunk (a part of the model that
/// the stage runs), as a bit set.
class Progress {
public:
  bool has(Kind kind) const { return done & bit(kind); }
  /// A kind of pass that must run before a pass of the kind `kind` and has not
  /// run yet. Returns nullopt if there is none.
  std::optional<Kind> missing(Kind kind) const {
    if (kind == Kind::BackwardWeight)
      return has(Kind::BackwardInput) ? std::nullopt
                                      : std::optional(Kind::BackwardInput);
    if (kind == Kind::Forward || has(Kind::Forward))
      return std::nullopt;
    return Kind::Forward;
  }
  std::optional<Kind> excluded(Kind kind) const {
    if (kind == Kind::Backward && has(Kind::BackwardInput))
      return Kind::BackwardInput;
    if (kind == Kind::BackwardInput && has(Kind::Backward))
      return Kind::Backward;
    return std::nullopt;
  }
  void add(Kind kind) { done |= bit(kind); }
  bool isFinished() const {
    return has(Kind::Backward) || has(Kind::BackwardWeight);
  }

private:
  static uint8_t bit(Kind kind) { return 1 << static_cast<int>(kind); }
  uint8_t done = 0;
};

} // namespace

/// Returns why `action` may not be the next action of its stage; "" if it may.
static std::string checkAction(const Action &action, const Progress &progress) {
  auto other = [&](Kind kind) {
    return Action{kind, action.microBatch, action.chunk}.str();
  };
  if (progress.has(action.kind))
    return " runs " + action.str() + " twice";
  if (auto kind = progress.missing(action.kind))
    return " runs " + action.str() + " before " + other(*kind);
  if (auto kind = progress.excluded(action.kind))
    return " runs " + action.str() + " after " + other(*kind) +
           "; one of them is right";
  return "";
}

/// Returns what is wrong with the order of one stage's actions, or "".
static std::string checkLine(const Line &line, int64_t chunks,
                             int64_t microBatches) {
  // A schedule that a user writes can name any number of chunks (parts of the
  // model that one stage runs). Refuse too many before memory is allocated for
  // them.
  if (chunks > 1 && chunks * microBatches > static_cast<int64_t>(line.size()))
    return " has " + std::to_string(line.size()) + " fragments; " +
           std::to_string(chunks) + " chunks of " +
           std::to_string(microBatches) + " micro-batches have at least " +
           std::to_string(2 * chunks * microBatches + 1);
  std::vector<Progress> all(chunks * microBatches);
  for (const Action &action : line) {
    if (action.kind == Kind::Optimizer)
      continue;
    int64_t batch = action.microBatch;
    if (batch < 0 || batch >= microBatches)
      return " runs micro-batch " + std::to_string(batch) + " of " +
             std::to_string(microBatches);
    Progress &progress = all[action.chunk * microBatches + batch];
    if (std::string wrong = checkAction(action, progress); !wrong.empty())
      return wrong;
    progress.add(action.kind);
  }
  for (auto [index, progress] : llvm::enumerate(all))
    if (!progress.isFinished()) {
      int64_t chunk = index / microBatches;
      return " does not finish micro-batch " +
             std::to_string(index % microBatches) +
             (chunk ? " of chunk " + std::to_string(chunk) : "");
    }
  int64_t optimizers = llvm::count_if(
      line, [](auto &action) { return action.kind == Kind::Optimizer; });
  if (line.back().kind != Kind::Optimizer || optimizers != 1)
    return " must end in its one optimizer fragment";
  return "";
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

namespace {

/// Executes the actions of all pipeline stages in their orders. A stage runs
/// until it needs a result that another stage has not computed yet.
class Execution {
public:
  Execution(const Schedule &schedule, int64_t chunks, int64_t microBatches)
      : schedule(schedule), stages(schedule.size()),
        virtualStages(stages * chunks), microBatches(microBatches),
        next(stages), forward(virtualStages * microBatches),
        gradient(virtualStages * microBatches) {}

  int64_t virtualStage(int64_t stage, const Action &action) const {
    return action.chunk * stages + stage;
  }

  /// `action` may need an activation or a gradient that another virtual stage
  /// computes for the same micro-batch. Returns this virtual stage, or nullopt
  /// if `action` needs no such result.
  std::optional<int64_t> needed(int64_t stage, const Action &action) const {
    int64_t self = virtualStage(stage, action);
    if (action.kind == Kind::Forward && self > 0)
      return self - 1;
    if (action.givesGradient() && self + 1 < virtualStages)
      return self + 1;
    return std::nullopt;
  }

  /// Calls `visit(stage, action)` for every action, after the calls for the
  /// actions on which it depends. Ends when all actions are done or all stages
  /// wait.
  template <typename Fn> void run(Fn visit);

  /// Describes the cycle of stages that wait for each other; "" if all actions
  /// are done.
  std::string describeCircle() const;

private:
  size_t place(int64_t virtualStage, int64_t batch) const {
    return virtualStage * microBatches + batch;
  }
  const Action &current(int64_t stage) const {
    return schedule[stage][next[stage]];
  }
  bool isDone(int64_t stage) const {
    return next[stage] == schedule[stage].size();
  }
  bool canRun(int64_t stage, const Action &action) const {
    auto other = needed(stage, action);
    const auto &results = action.kind == Kind::Forward ? forward : gradient;
    return !other || results[place(*other, action.microBatch)];
  }
  std::string describeNeed(int64_t stage) const;

  const Schedule &schedule;
  int64_t stages, virtualStages, microBatches;
  std::vector<size_t> next;
  std::vector<bool> forward, gradient;
};

} // namespace

template <typename Fn> void Execution::run(Fn visit) {
  llvm::SmallVector<int64_t> work;
  std::vector<bool> waiting(stages, true);
  for (int64_t stage = stages - 1; stage >= 0; --stage)
    work.push_back(stage);
  while (!work.empty()) {
    int64_t stage = work.pop_back_val();
    waiting[stage] = false;
    for (; !isDone(stage) && canRun(stage, current(stage)); ++next[stage]) {
      const Action &action = current(stage);
      visit(stage, action);
      int64_t self = virtualStage(stage, action), other = self;
      if (action.kind == Kind::Forward) {
        forward[place(self, action.microBatch)] = true;
        other = (self + 1) % virtualStages;
      } else if (action.givesGradient()) {
        gradient[place(self, action.microBatch)] = true;
        other = (self + virtualStages - 1) % virtualStages;
      }
      // Virtual stage `other` needs the result of this action. The pipeline
      // stage that runs it, `other % stages`, may be waiting for the result, so
      // let that stage continue.
      if (other % stages != stage && !waiting[other % stages]) {
        waiting[other % stages] = true;
        work.push_back(other % stages);
      }
    }
  }
}

std::string Execution::describeNeed(int64_t stage) const {
  const Action &action = current(stage);
  int64_t other = *needed(stage, action);
  // The gradient of the stage's output comes from the next stage: from its
  // whole backward pass, or from the half that computes input gradients.
  const Line &line = schedule[other % stages];
  auto giver = llvm::find_if(line, [&](const Action &candidate) {
    return candidate.microBatch == action.microBatch &&
           candidate.chunk == other / stages &&
           (action.kind == Kind::Forward ? candidate.kind == Kind::Forward
                                         : candidate.givesGradient());
  });
  return giver->str() + " of " + nameOf(other % stages);
}

std::string Execution::describeCircle() const {
  int64_t stage = 0;
  while (stage < stages && isDone(stage))
    ++stage;
  if (stage == stages)
    return "";
  auto waitsFor = [&](int64_t waiter) {
    return *needed(waiter, current(waiter)) % stages;
  };
  // Go from each stage to the stage that it waits for. After `stages` steps the
  // reached stage is on the cycle of waiting stages, because fewer than
  // `stages` stages are not on the cycle.
  for (int64_t step = 0; step < stages; ++step)
    stage = waitsFor(stage);
  int64_t first = stage;
  for (int64_t s = waitsFor(stage); s != stage; s = waitsFor(s))
    first = std::min(first, s);
  std::string text = nameOf(first) + " waits forever at " +
                     current(first).str() + " for " + describeNeed(first);
  for (int64_t s = waitsFor(first); s != first; s = waitsFor(s))
    text += ", which waits at " + current(s).str() + " for " + describeNeed(s);
  return text;
}

std::string heddle::pipe::checkSchedule(const Schedule &schedule,
                                        int64_t microBatches) {
  int64_t chunks = chunksOf(schedule);
  for (auto [stage, line] : llvm::enumerate(schedule))
    if (std::string wrong = checkLine(line, chunks, microBatches);
        !wrong.empty())
      return nameOf(stage) + wrong;
  Execution execution(schedule, chunks, microBatches);
  execution.run([](int64_t, const Action &) {});
  return execution.describeCircle();
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

double StageTimes::of(const Action &action) const {
  const ChunkTimes &chunk = chunks[action.chunk];
  // The durations of actions, in the order of the values of Action::Kind.
  return std::array{chunk.forward, chunk.backward, chunk.backwardInput,
                    chunk.backwardWeight,
                    optimizer}[static_cast<size_t>(action.kind)];
}

Replay heddle::pipe::replaySchedule(const Schedule &schedule,
                                    llvm::ArrayRef<StageTimes> times) {
  int64_t stages = schedule.size(), microBatches = 0;
  for (const Action &action : schedule.front())
    microBatches = std::max(microBatches, action.microBatch + 1);
  int64_t chunks = chunksOf(schedule);
  Execution execution(schedule, chunks, microBatches);
  Replay replay;
  replay.busy.resize(stages);
  replay.begins.resize(stages);
  std::vector<double> free(stages);
  // For each virtual stage and micro-batch, the time at which the stage has
  // computed the activations of its output (`forward`), and the gradient of its
  // input (`gradient`).
  std::vector<double> forward(stages * chunks * microBatches),
      gradient = forward;
  execution.run([&](int64_t stage, const Action &action) {
    double start = free[stage];
    auto &results = action.kind == Kind::Forward ? forward : gradient;
    if (auto other = execution.needed(stage, action)) {
      int64_t from = *other % stages;
      double transfer = times[from].chunks[*other / stages].transfer;
      start =
          std::max(start, results[*other * microBatches + action.microBatch] +
                              (from == stage ? 0 : transfer));
    }
    double time = times[stage].of(action);
    free[stage] = start + time;
    replay.busy[stage] += time;
    replay.begins[stage].push_back(start);
    if (action.kind == Kind::Forward || action.givesGradient())
      results[execution.virtualStage(stage, action) * microBatches +
              action.microBatch] = free[stage];
    replay.makespan = std::max(replay.makespan, free[stage]);
  });
  return replay;
}
