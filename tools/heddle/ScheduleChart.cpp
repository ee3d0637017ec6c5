//===- ScheduleChart.cpp - How long stages wait ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleChart.h"
#include "dialects/Pipe/Schedule.h"

using namespace heddle;

/// What the fragments of each chunk take; kinds that the stage lacks, nothing.
static pipe::StageTimes timesOf(const driver::StageLine &stage,
                                int64_t chunks) {
  using Kind = pipe::Action::Kind;
  auto time = [&](Kind kind, int64_t chunk) {
    auto found = stage.times.find(pipe::Action{kind, 0, chunk}.name());
    return found == stage.times.end() ? 0.0 : found->second;
  };
  pipe::StageTimes times;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    times.chunks.push_back(
        {time(Kind::Forward, chunk), time(Kind::Backward, chunk),
         time(Kind::BackwardInput, chunk), time(Kind::BackwardWeight, chunk)});
  return times;
}

std::vector<double> driver::idleShares(const std::vector<StageLine> &stages) {
  if (stages.empty())
    return {};
  pipe::Schedule schedule;
  int64_t microBatches = 0;
  for (const StageLine &stage : stages) {
    auto line = pipe::parseStage(stage.line + " O");
    if (!line)
      return {};
    for (const pipe::Action &action : *line)
      microBatches = std::max(microBatches, action.microBatch + 1);
    schedule.push_back(std::move(*line));
  }
  if (!pipe::checkSchedule(schedule, microBatches).empty())
    return {};
  std::vector<pipe::StageTimes> times;
  for (const StageLine &stage : stages)
    times.push_back(timesOf(stage, pipe::chunksOf(schedule)));
  pipe::Replay replay = pipe::replaySchedule(schedule, times);
  std::vector<double> shares;
  for (size_t i = 0; i < stages.size(); ++i)
    shares.push_back(replay.idleShare(i));
  return shares;
}
