//===- Schedule.cpp - Pipeline schedules as data --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace heddle::pipe;
using Kind = Action::Kind;

std::string Action::str() const {
  if (kind == Kind::Optimizer)
    return "O";
  return (kind == Kind::Forward ? "F" : "B") + std::to_string(microBatch);
}

/// Warm-up of `ahead` forward passes, then one forward and one backward in
/// turn, then the rest of the backward passes.
static std::vector<Action> makeStage(int64_t ahead, int64_t microBatches) {
  std::vector<Action> stage;
  int64_t forward = 0, backward = 0;
  for (; forward < std::min(ahead, microBatches); ++forward)
    stage.push_back({Kind::Forward, forward});
  for (; forward < microBatches; ++forward) {
    stage.push_back({Kind::Forward, forward});
    stage.push_back({Kind::Backward, backward++});
  }
  for (; backward < microBatches; ++backward)
    stage.push_back({Kind::Backward, backward});
  stage.push_back({Kind::Optimizer, 0});
  return stage;
}

std::optional<Schedule> heddle::pipe::makeSchedule(llvm::StringRef kind,
                                                   int64_t stages,
                                                   int64_t microBatches) {
  if (kind != "gpipe" && kind != "1f1b")
    return std::nullopt;
  Schedule schedule;
  for (int64_t stage = 0; stage < stages; ++stage) {
    // With one stage there is nothing to fill: one micro-batch after the other.
    bool all = kind == "gpipe" && stages > 1;
    schedule.push_back(
        makeStage(all ? microBatches : stages - 1 - stage, microBatches));
  }
  return schedule;
}

std::optional<std::vector<Action>>
heddle::pipe::parseStage(llvm::StringRef text) {
  std::vector<Action> stage;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    Action action;
    if (word == "O") {
      action.kind = Kind::Optimizer;
    } else {
      if (word.front() != 'F' && word.front() != 'B')
        return std::nullopt;
      action.kind = word.front() == 'F' ? Kind::Forward : Kind::Backward;
      if (word.drop_front().getAsInteger(10, action.microBatch))
        return std::nullopt;
    }
    stage.push_back(action);
  }
  return stage;
}

/// Whether the fragments of one stage are complete and in a possible order.
static std::string checkStage(const std::vector<Action> &stage,
                              int64_t microBatches, int64_t number) {
  std::string name = "stage " + std::to_string(number);
  std::vector<int> forward(microBatches), backward(microBatches);
  for (const Action &action : stage) {
    if (action.kind == Kind::Optimizer)
      continue;
    int64_t batch = action.microBatch;
    if (batch < 0 || batch >= microBatches)
      return name + " runs micro-batch " + std::to_string(batch) + " of " +
             std::to_string(microBatches);
    if (action.kind == Kind::Backward && !forward[batch])
      return name + " runs " + action.str() + " before F" +
             std::to_string(batch);
    if (++(action.kind == Kind::Forward ? forward : backward)[batch] > 1)
      return name + " runs " + action.str() + " twice";
  }
  for (int64_t batch = 0; batch < microBatches; ++batch)
    if (!forward[batch] || !backward[batch])
      return name + " does not finish micro-batch " + std::to_string(batch);
  bool ends = !stage.empty() && stage.back().kind == Kind::Optimizer;
  bool once = 1 == std::count_if(stage.begin(), stage.end(), [](auto &action) {
                return action.kind == Kind::Optimizer;
              });
  if (!ends || !once)
    return name + " must end in its one optimizer fragment";
  return "";
}

std::string heddle::pipe::checkSchedule(const Schedule &schedule,
                                        int64_t microBatches) {
  for (size_t stage = 0; stage < schedule.size(); ++stage)
    if (std::string wrong = checkStage(schedule[stage], microBatches, stage);
        !wrong.empty())
      return wrong;
  // Every stage goes on as far as it can, until nothing moves any more.
  int64_t stages = schedule.size();
  std::vector<size_t> next(stages);
  std::vector<std::vector<bool>> forward(stages,
                                         std::vector<bool>(microBatches)),
      backward = forward;
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < stages; ++s)
      while (next[s] < schedule[s].size()) {
        const Action &action = schedule[s][next[s]];
        int64_t batch = action.microBatch;
        bool waits =
            (action.kind == Kind::Forward && s > 0 && !forward[s - 1][batch]) ||
            (action.kind == Kind::Backward && s + 1 < stages &&
             !backward[s + 1][batch]);
        if (waits)
          break;
        if (action.kind == Kind::Forward)
          forward[s][batch] = true;
        if (action.kind == Kind::Backward)
          backward[s][batch] = true;
        ++next[s];
        moved = true;
      }
  }
  for (int64_t s = 0; s < stages; ++s)
    if (next[s] < schedule[s].size())
      return "stage " + std::to_string(s) + " waits forever at " +
             schedule[s][next[s]].str();
  return "";
}

int64_t heddle::pipe::liveMicroBatches(const std::vector<Action> &stage) {
  int64_t live = 0, most = 0;
  for (const Action &action : stage) {
    live += action.kind == Kind::Forward    ? 1
            : action.kind == Kind::Backward ? -1
                                            : 0;
    most = std::max(most, live);
  }
  return most;
}
