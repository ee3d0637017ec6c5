//===- Schedule.h - Pipeline schedules as data ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipeline schedules: their generators (gpipe, 1f1b, interleaved, zb-h1), their
// text form, a checker that also finds deadlocks, and a simulation that gives
// times and bubbles. Used by the pipe dialect, the passes of
// lib/Transforms/Pipe, `explain` and `fit`.
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

/// One action of a pipeline stage (a fragment): the forward pass, the backward
/// pass or a half of the backward pass of one micro-batch, or the optimizer
/// step.
struct Action {
  using Kind = plan::FragmentKind;
  Kind kind = Kind::Forward;
  int64_t microBatch = 0;
  /// The index of the chunk of layers within the stage. Chunk c of stage s is
  /// virtual stage c * stages + s.
  int64_t chunk = 0;

  /// The action with the same kind and chunk, but for micro-batch 0. It
  /// represents the actions of all micro-batches.
  Action kindOnly() const { return {kind, 0, chunk}; }
  /// The action as text without its micro-batch: F (forward), B (backward), I
  /// (input gradients), W (weight gradients) or O (optimizer), and F/1 for the
  /// second chunk.
  std::string name() const;
  /// The action as text: F3 (forward), B3 (backward), I3 (input gradients) or
  /// W3 (weight gradients) for micro-batch 3, F3/1 for its second chunk of
  /// layers, or O for the optimizer.
  std::string str() const;
  /// Whether this action computes the gradient for which the previous virtual
  /// stage waits.
  bool givesGradient() const {
    return kind == Kind::Backward || kind == Kind::BackwardInput;
  }
  /// Whether this action is the last to read the activations of its
  /// micro-batch, so that they can be freed.
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
/// For each pipeline stage, its forward and backward passes in the order in
/// which they run.
using Schedule = std::vector<Line>;

/// The largest number of micro-batches of a step. It limits the memory that the
/// checks need.
constexpr uint32_t mostMicroBatches = 1 << 20;

/// Parses the text of one stage's line (its list of actions), such as "F0 B0
/// O". Returns nullopt if the text is invalid.
std::optional<Line> parseStage(llvm::StringRef text);
/// The text that `parseStage` reads.
std::string printStage(llvm::ArrayRef<Action> line);

/// The kinds of actions in a stage's line (its list of actions), as actions
/// with micro-batch 0: one for each kind and chunk of layers that occurs,
/// sorted by kind and then by chunk.
Line kindsOf(llvm::ArrayRef<Action> line);

/// Generates the schedule of one training step:
/// - gpipe: all forward passes, then all backward passes (Huang et al., arXiv
///   1811.06965);
/// - 1f1b: one forward and one backward pass alternate (Narayanan et al., arXiv
///   2006.09503);
/// - interleaved: 1f1b over `chunks` >= 2 chunks of each stage, in Megatron's
///   order (Narayanan et al., arXiv 2104.04473); the number of micro-batches
///   must be a multiple of the number of stages;
/// - zb-h1: needs the memory of 1f1b, and computes the gradients of weights
///   where a stage would wait (Qi et al., arXiv 2401.10241).
///
/// Returns nullopt if the schedule is impossible, and sets `why` to a text that
/// says what is possible instead.
std::optional<Schedule> makeSchedule(llvm::StringRef kind, int64_t stages,
                                     int64_t microBatches, int64_t chunks,
                                     std::string &why);

/// The number of chunks of layers of each stage: one more than the highest
/// index of a chunk, at least 1.
int64_t chunksOf(const Schedule &schedule);

/// Checks a schedule. Returns the first error, or "".
/// - Every stage must run one forward pass for each micro-batch and each of its
///   chunks of layers. It must run each backward pass once, either as a whole
///   or as two halves: first the gradient of the input, later the gradients of
///   the weights. The optimizer comes last.
/// - The stages must not wait for each other in a cycle. A forward pass waits
///   for the forward pass of the previous virtual stage, a backward pass for
///   the backward pass of the next virtual stage.
///
/// The time of the check is linear in the number of passes.
std::string checkSchedule(const Schedule &schedule, int64_t microBatches);

/// The largest number of micro-batches whose activations a stage holds at the
/// same time, for one chunk of layers or over all chunks of the stage. A stage
/// holds activations until the backward pass, or both of its halves, are done.
int64_t liveMicroBatches(const Line &line, std::optional<int64_t> chunk = {});

/// The number of slots, that is, buffers for the activations of one
/// micro-batch, that `chunk` needs. Micro-batch m uses slot m modulo this
/// number, and no two micro-batches that the stage holds at the same time may
/// share a slot. At least 1.
int64_t slotsNeeded(const Line &line, int64_t chunk);

/// How long the forward pass, the backward pass and the two halves of the
/// backward pass of one chunk of layers take, in any unit of time. `transfer`
/// is the time from the end of a pass until its result has arrived at another
/// stage. The sending stage can compute during this time.
struct ChunkTimes {
  double forward = 1, backward = 2, backwardInput = 1, backwardWeight = 1;
  double transfer = 0;
};

struct StageTimes {
  double of(const Action &action) const;

  std::vector<ChunkTimes> chunks;
  double optimizer = 0;
};

/// The times of a simulated schedule. Every pass starts as soon as its stage is
/// free and its input has arrived.
struct Replay {
  double makespan = 0;      ///< The time at which the last fragment ends.
  std::vector<double> busy; ///< For each stage, how long it computes.
  /// `begins[s][i]` is the time at which action i of stage s starts.
  std::vector<std::vector<double>> begins;

  /// The share of a step in which the stage does nothing: its bubble.
  double idleShare(int64_t stage) const {
    return makespan > 0 ? 1 - busy[stage] / makespan : 0;
  }
};

/// Simulates a schedule that `checkSchedule` accepts. `times` has an entry for
/// each stage.
Replay replaySchedule(const Schedule &schedule,
                      llvm::ArrayRef<StageTimes> times);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_SCHEDULE_H
