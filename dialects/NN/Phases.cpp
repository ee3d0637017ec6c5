//===- Phases.cpp - Checks the phases of train programs -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Phases.h"
#include <map>

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

LogicalResult heddle::nn::verifyPhases(ArrayRef<ProgramPhase> programs) {
  Operation *first = nullptr; // The first train program of the list.
  bool isFirstPhase = false;  // Whether a phase begins at step 1.
  DenseMap<Attribute, Operation *> names;
  std::map<std::pair<int64_t, bool>, PhaseAttr> begins; // By `every`, too.
  PhaseAttr known; // The first phase of the list.
  int64_t last = 0;
  for (const ProgramPhase &one : programs) {
    if (!one.trains && one.phase)
      return one.program->emitOpError("has the phase ")
             << one.phase.getName() << ", but is no train program";
    if (!one.trains)
      continue;
    if (first && (!one.phase || names.empty()))
      return (one.phase ? first : one.program)
          ->emitOpError("has no phase, and is one of several train "
                        "programs; add phase = #nn.phase<...>");
    if (!first)
      first = one.program;
    if (!one.phase)
      continue;
    StringAttr name = one.phase.getName();
    isFirstPhase |= one.phase.getFrom() == 1;
    if (!names.try_emplace(name, one.program).second)
      return one.program->emitOpError("has the phase ")
             << name << ", and an earlier program has one of this name";
    last = std::max(last, one.phase.getFrom());
    bool hasInterval = one.phase.getEvery() != nullptr;
    auto [begun, isNew] =
        begins.try_emplace({one.phase.getFrom(), hasInterval}, one.phase);
    if (!known)
      known = one.phase;
    PhaseAttr other = known;
    if (one.phase.getCountsUpdates() != other.getCountsUpdates())
      return one.program->emitOpError("has the phase ")
             << name << " from " << beginOf(one.phase) << ", and the phase "
             << other.getName() << " begins at " << beginOf(other)
             << "; let all phases count steps, or all count updates";
    if (!isNew)
      return one.program->emitOpError("has the phase ")
             << name << " from " << beginOf(one.phase) << ", and the phase "
             << begun->second.getName() << " begins there, too";
  }
  for (const ProgramPhase &one : programs) {
    if (!one.phase)
      continue;
    if (one.phase.getEvery() && !begins.count({one.phase.getFrom(), false}))
      return one.program->emitOpError("has the phase ")
             << one.phase.getName() << ", which runs at intervals from "
             << beginOf(one.phase)
             << " on, and no other phase begins there, to run in between";
    if (one.phase.getTo() && one.phase.getFrom() != last)
      return one.program->emitOpError("has the phase ")
             << one.phase.getName() << ", which ends with " << one.phase.getTo()
             << ", and a later phase";
  }
  if (!names.empty() && !isFirstPhase)
    return first->emitOpError("is a train program, but no phase begins at 1");
  return success();
}

plan::Phase heddle::nn::toPlan(PhaseAttr phase) {
  if (!phase)
    return {};
  return {phase.getName().str(), phase.getFrom(), phase.getCountsUpdates(),
          phase.getEvery() ? phase.getEvery().toPlan() : plan::Interval(),
          phase.getTo()};
}

std::string heddle::nn::beginOf(PhaseAttr phase) {
  return (phase.getCountsUpdates() ? "update " : "step ") +
         std::to_string(phase.getFrom());
}

std::string heddle::nn::programName(ProgramKind kind, PhaseAttr phase) {
  std::string name = stringifyProgramKind(kind).str();
  return phase ? name + "." + phase.getName().str() : name;
}
