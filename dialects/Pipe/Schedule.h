//===- Schedule.h - Pipeline schedules as data ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_SCHEDULE_H
#define HEDDLE_DIALECTS_PIPE_SCHEDULE_H

#include "heddle/PlanFormat/FragmentKind.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::pipe {

/// One fragment of a stage.
struct Action {
  using Kind = plan::FragmentKind;
  Kind kind = Kind::Forward;
  int64_t microBatch = 0;
  /// Which of the stage's chunks of layers. The virtual stage `chunk * stages +
  /// stage` comes after the one before it, on the stage before (in a ring).
  int64_t chunk = 0;

  /// The same with micro-batch 0, for all fragments of one kind and chunk.
  Action kindOnly() const { return {kind, 0, chunk}; }
  /// Without the micro-batch: F, B, I, W, O; F/1 for the second chunk.
  std::string name() const;
  /// As the schedule is written: F3, B3, I3, W3, F3/1, O.
  std::string str() const;
  /// Whether this makes the gradient that the previous virtual stage needs.
  bool givesGradient() const {
    return kind == Kind::Backward || kind == Kind::BackwardInput;
  }
  /// Whether nothing needs the forward pass's results after this.
  bool releases() const {
    return kind == Kind::Backward || kind == Kind::BackwardWeight;
  }
  bool operator==(const Action &other) const {
    return kind == other.kind && microBatch == other.microBatch &&
           chunk == other.chunk;
  }
};

inline llvm::hash_code hash_value(const Action &action) {
  return llvm::hash_combine(action.kind, action.microBatch, action.chunk);
}

using Line = std::vector<Action>;
/// For each stage, its fragments in order.
using Schedule = std::vector<Line>;

/// As many micro-batches as a step may have: checks need memory for each.
constexpr uint32_t mostMicroBatches = 1 << 20;

/// Reads one stage's line; nothing when it is not a schedule.
std::optional<Line> parseStage(llvm::StringRef text);
/// The text that `parseStage` reads.
std::string printStage(llvm::ArrayRef<Action> line);

/// The kinds of fragments in a line, each with micro-batch 0: by Action::Kind,
/// then by chunk.
Line kindsOf(llvm::ArrayRef<Action> line);

/// Makes the schedule of one training step:
///  - gpipe: all forward passes, then all backward passes (Huang et al., arXiv
///    1811.06965);
///  - 1f1b: one forward, one backward in turn (Narayanan et al., arXiv
///    2006.09503);
///  - interleaved: 1f1b over `chunks` >= 2 chunks of each stage, in Megatron's
///    order (Narayanan et al., arXiv 2104.04473); the micro-batches are a
///    multiple of the stages;
///  - zb-h1: 1f1b's memory, the gradients of the weights made where a stage
///    would wait (Qi et al., arXiv 2401.10241).
/// Nothing when there is no such schedule; then `why` says what is possible.
std::optional<Schedule> makeSchedule(llvm::StringRef kind, int64_t stages,
                                     int64_t microBatches, int64_t chunks,
                                     std::string &why);

/// One more than the highest chunk of any stage; at least 1.
int64_t chunksOf(const Schedule &schedule);

/// The first thing wrong with a schedule, or "". Every stage runs each
/// micro-batch of each chunk forward once and backward once (or both halves,
/// the input's first), then the optimizer; and the stages, each in its order,
/// do not wait for each other in a circle: forward passes need those of the
/// previous virtual stage, backward passes those of the next. Takes time linear
/// in the number of fragments.
std::string checkSchedule(const Schedule &schedule, int64_t microBatches);

/// The most forward passes whose results a stage must hold at a time, over all
/// its chunks: those with a backward pass, or a half of one, still to come.
int64_t liveMicroBatches(const Line &line);
/// The same for one chunk.
int64_t liveMicroBatches(const Line &line, int64_t chunk);

/// The smallest count such that no two micro-batches which the stage holds for
/// `chunk` at the same time have the same micro-batch mod count; at least 1.
int64_t slotsNeeded(const Line &line, int64_t chunk);

/// How long the fragments of one chunk of a stage take, in any unit. `transfer`
/// is the time from the end of one of its fragments until another stage has its
/// result; the stage itself works on.
struct ChunkTimes {
  double forward = 1, backward = 2, backwardInput = 1, backwardWeight = 1;
  double transfer = 0;
};

struct StageTimes {
  double of(const Action &action) const;

  std::vector<ChunkTimes> chunks;
  double optimizer = 0;
};

/// What a schedule takes when every fragment starts as early as it can.
struct Replay {
  double makespan = 0;      ///< Until the last fragment of any stage ends.
  std::vector<double> busy; ///< Of each stage.
  /// When each fragment of each stage's line begins.
  std::vector<std::vector<double>> begins;

  /// The share of the step in which a stage does nothing: its bubble.
  double idleShare(int64_t stage) const {
    return makespan > 0 ? 1 - busy[stage] / makespan : 0;
  }
};

/// Replays a schedule that `checkSchedule` accepts. `times` has an entry for
/// each stage, with one for each of its chunks.
Replay replaySchedule(const Schedule &schedule,
                      llvm::ArrayRef<StageTimes> times);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_SCHEDULE_H
