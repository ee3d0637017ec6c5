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
#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

using plan::State;

std::string heddle::rt::checkpointPrefix(const State &state) {
  if (state.role == plan::StateRole::Parameter || state.parameter.empty())
    return "";
  return state.name.substr(state.parameter.size() + 1) + ".";
}

/// Returns the parameters that were frozen in the run that wrote the
/// checkpoint.
static std::set<std::string> frozenIn(const io::Checkpoint &checkpoint,
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

/// Whether the state called `name` holds what belongs to a rank.
using OwnStates = bool (*)(std::string_view name);

/// Returns those of the states `isOwn` that begin at zero: none if the
/// checkpoint has all of them, otherwise each of them. With `all` it is as if
/// it had none.
static std::set<std::string> ownThatBegin(const io::Checkpoint &checkpoint,
                                          const plan::Plan &plan,
                                          OwnStates isOwn, bool all) {
  std::set<std::string> begun;
  bool fits = true;
  for (const plan::Stage &stage : plan.stages)
    for (const State &state : stage.states) {
      if (!state.parameter.empty() || !isOwn(state.name))
        continue;
      begun.insert(state.name);
      const plan::WeightSlice piece = sourcesOf(stage, state).front();
      const io::TensorInfo *found = checkpoint.optimizer.find(piece.tensor);
      fits &= found && found->shape == piece.shape;
    }
  // The order of errors depends on the ranks, also where their number does not.
  return all || !fits ? begun : std::set<std::string>();
}

static bool hasOwn(const io::Checkpoint &checkpoint, OwnStates isOwn) {
  const std::vector<io::TensorInfo> &saved = checkpoint.optimizer.tensors();
  return std::any_of(saved.begin(), saved.end(),
                     [&](const auto &tensor) { return isOwn(tensor.name); });
}

/// Whether a program that is to make update `update` would find no second
/// moment, if it begins at zero now: the phase has frozen it, or updates it at
/// intervals.
static bool lacksMoment(const plan::Phase &phase, int64_t update) {
  return phase.countsUpdates && phase.from <= update &&
         (phase.from > 1 || !phase.every.includes(phase.from, update));
}

/// Checks that the run is in a phase in which moments change.
static void requireMoments(const plan::Plan &plan,
                           const io::CheckpointState &state) {
  int64_t updates = state.updates.updates();
  int64_t next = state.updates.expected(state.step + 1);
  std::vector<const plan::Program *> programs = plan.trainPrograms();
  // The last phase that has begun says why.
  auto lacking = std::find_if(programs.rbegin(), programs.rend(),
                              [&](const plan::Program *program) {
                                return lacksMoment(program->phase, next);
                              });
  if (lacking == programs.rend())
    return;
  const plan::Phase &phase = (*lacking)->phase;
  const std::string after = " after " + std::to_string(updates) + " updates";
  if (phase.from == 1)
    fail("H0335",
         "the next update" + after +
             " leaves the second moment as it is: it cannot begin at zero",
         "resume from a step before an update of the phase " + phase.name +
             ", or with what the optimizer has kept");
  fail("H0335",
       "the run is in the phase " + phase.name + after +
           ", in which the second moment does not change: it cannot begin at "
           "zero",
       "resume with what the optimizer has kept, or compile with a phase that "
       "begins later, such as --freeze-step or --var-freeze-step " +
           std::to_string(2 * updates));
}

static void warnOfOtherRanks(bool ofSteps) {
  Diagnostic begun;
  begun.code = "H0414";
  begun.message =
      ofSteps
          ? "the checkpoint has steps that other ranks, or ranks with other "
            "buckets, made by themselves since they last synchronized: this "
            "run goes on from there without them"
          : "the checkpoint has the errors of what other ranks, or ranks "
            "with other buckets, sent compressed: those of this run "
            "begin at zero";
  begun.help = "go on with the mesh, --zero and --group of before to keep them";
  warn(begun);
}

static void warnOfFrozen(const std::set<std::string> &frozen) {
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

FirstValues heddle::rt::firstValuesIn(const io::Checkpoint &checkpoint,
                                      const plan::Plan &plan,
                                      bool resetOptimizer, bool resetErrors,
                                      bool warns) {
  FirstValues begun;
  if (!resetOptimizer)
    begun.parameters = frozenIn(checkpoint, plan);
  if (resetOptimizer || !begun.parameters.empty())
    requireMoments(plan, checkpoint.state);
  // The errors of another optimizer are of another tensor.
  const std::string &saved = checkpoint.state.optimizer;
  bool isOther = !saved.empty() && saved != plan.optimizer.type;
  if (warns && !begun.parameters.empty())
    warnOfFrozen(begun.parameters);
  for (OwnStates isOwn : {&plan::holdsErrors, &plan::holdsLocalSteps}) {
    std::set<std::string> own =
        ownThatBegin(checkpoint, plan, isOwn, resetErrors || isOther);
    if (warns && !own.empty() && !resetErrors && !isOther &&
        hasOwn(checkpoint, isOwn))
      warnOfOtherRanks(/*ofSteps=*/isOwn == &plan::holdsLocalSteps);
    begun.errors.merge(own);
  }
  return begun;
}
