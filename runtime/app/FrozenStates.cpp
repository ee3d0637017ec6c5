//===- FrozenStates.cpp - Parameters that were frozen ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FrozenStates.h"
#include "Warnings.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
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

std::set<std::string>
heddle::rt::errorsThatBegin(const plan::Plan &plan,
                            const io::Checkpoint &checkpoint, bool all) {
  std::set<std::string> begun;
  bool isSaved = false, fits = true;
  for (const State &state : plan.states) {
    if (!plan::holdsErrors(state.name))
      continue;
    begun.insert(state.name);
    const plan::WeightSlice piece = sourcesOf(plan, state).front();
    const io::TensorInfo *found = checkpoint.optimizer.find(piece.tensor);
    isSaved |= found != nullptr;
    fits &= found && found->shape == piece.shape;
  }
  // The order of errors depends on the ranks, also where their number does not.
  return all || (isSaved && !fits) ? begun : std::set<std::string>();
}

void heddle::rt::requireMoments(const plan::Plan &plan, int64_t updates,
                                bool begin) {
  for (const plan::Program *program : plan.trainPrograms())
    if (begin && program->phase.countsUpdates && program->phase.from > 1 &&
        program->phase.from <= updates + 1)
      fail("H0335",
           "the run is in the phase " + program->phase.name + " after " +
               std::to_string(updates) +
               " updates, in which the second moment does not change: it "
               "cannot begin at zero",
           "resume with what the optimizer has kept, or compile with a phase "
           "that begins later, such as --freeze-step " +
               std::to_string(2 * updates));
}

void heddle::rt::warnOfOtherRanks() {
  Diagnostic begun;
  begun.code = "H0414";
  begun.message = "the checkpoint has the errors of what other ranks, or ranks "
                  "with other buckets, sent compressed: those of this run "
                  "begin at zero";
  begun.help = "go on with the mesh, --zero and --group of before to keep them";
  warn(begun);
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
