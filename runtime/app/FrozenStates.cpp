//===- FrozenStates.cpp - Parameters that were frozen ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FrozenStates.h"
#include "Warnings.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/app/Weights.h"

using namespace heddle;
using namespace heddle::rt;

using plan::State;

std::string heddle::rt::checkpointPrefix(const State &state) {
  if (state.role == plan::StateRole::Parameter || state.parameter.empty())
    return "";
  return state.name.substr(state.parameter.size() + 1) + ".";
}

std::set<std::string> heddle::rt::frozenIn(const io::Checkpoint &checkpoint,
                                           const plan::Plan &plan) {
  std::set<std::string> frozen, trained, wanted, found;
  for (const plan::Stage &stage : plan.stages)
    for (const State &state : stage.states) {
      if (state.role == plan::StateRole::Parameter || !state.checkpointed ||
          state.parameter.empty())
        continue;
      std::string prefix = checkpointPrefix(state);
      wanted.insert(prefix);
      frozen.insert(state.parameter);
      for (const plan::WeightSlice &piece : sourcesOf(stage, state))
        if (checkpoint.optimizer.find(prefix + piece.tensor)) {
          found.insert(prefix);
          trained.insert(state.parameter);
        }
    }
  for (const std::string &parameter : trained)
    frozen.erase(parameter);
  return found == wanted ? frozen : std::set<std::string>();
}

void heddle::rt::warnOfFrozen(const std::set<std::string> &frozen) {
  Diagnostic begun;
  begun.code = "H0415";
  begun.message = std::to_string(frozen.size()) +
                  " parameters that are trained now were frozen in the "
                  "checkpoint, as " +
                  *frozen.begin() +
                  ": what the optimizer keeps of them begins at zero";
  begun.help = "--reset-optimizer lets it begin at zero for all parameters";
  warn(begun);
}
