//===- Schedule.h - Pipeline schedules as data ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_SCHEDULE_H
#define HEDDLE_DIALECTS_PIPE_SCHEDULE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::pipe {

/// One fragment of a stage.
struct Action {
  enum class Kind { Forward, Backward, Optimizer } kind = Kind::Forward;
  int64_t microBatch = 0;
  /// As the schedule is written: F3, B3, O.
  std::string str() const;
};

/// For each stage, its fragments in order.
using Schedule = std::vector<std::vector<Action>>;

/// The schedules that are known: gpipe (Huang et al., arXiv 1811.06965) and
/// 1f1b (Narayanan et al., arXiv 2006.09503). Nothing for another name.
std::optional<Schedule> makeSchedule(llvm::StringRef kind, int64_t stages,
                                     int64_t microBatches);

/// Reads one stage's line; nothing when it is not a schedule.
std::optional<std::vector<Action>> parseStage(llvm::StringRef text);

/// The first thing wrong with a schedule, or "": every stage runs each
/// micro-batch forward once and backward once, then the optimizer; and the
/// stages, each in its order, do not wait for each other in a circle: forward
/// passes need the previous stage's, backward passes the next stage's.
std::string checkSchedule(const Schedule &schedule, int64_t microBatches);

/// The most micro-batches whose forward pass is done and whose backward pass is
/// not: what the stage must hold.
int64_t liveMicroBatches(const std::vector<Action> &stage);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_SCHEDULE_H
