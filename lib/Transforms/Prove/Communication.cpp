//===- Communication.cpp - Proves that ranks neither deadlock nor race ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `prove-communication`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Phases.h"
#include "heddle/Settings/Groups.h"
#include "heddle/Transforms/Prove/Passes.h"
#include "heddle/Transforms/Prove/ProgramTraces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

namespace heddle {
#define GEN_PASS_DEF_PROVECOMMUNICATION
#include "include/heddle/Transforms/Prove/Passes.h.inc"
} // namespace heddle

namespace {

/// The name and the kind of a step program. The name is needed because there
/// may be several programs of one kind.
using Step = std::pair<StringAttr, nn::ProgramKindAttr>;

planir::SequenceOp stepOf(planir::ProgramOp program, Step step) {
  for (auto sequence : program.getOps<planir::SequenceOp>())
    if (step == Step(sequence.getSymNameAttr(), sequence.getKindAttr()))
      return sequence;
  return {};
}

/// Whether ranks with different coordinates along the mesh axis `data` run this
/// program independently of each other, for different requests.
bool isOfOneGroup(planir::ProgramOp program, planir::SequenceOp step) {
  if (config::groupsOf(program.getStrategy().getValue()) == 1)
    return false;
  return step.getKind() == nn::ProgramKind::Prefill ||
         step.getKind() == nn::ProgramKind::Decode ||
         step.getKind() == nn::ProgramKind::Score ||
         step.getKind() == nn::ProgramKind::Encode;
}

/// Checks that no collective connects groups that run a program independently:
/// one group would wait for the other.
std::optional<Fault> checkApart(const plan::Mesh &mesh,
                                ArrayRef<Trace> traces) {
  auto leaves = [&](const Collective &collective) {
    return llvm::any_of(collective.what.axes, [&](const std::string &axis) {
      return mesh.roleOf(axis) == plan::AxisRole::Data && mesh.size(axis) > 1;
    });
  };
  for (auto [who, trace] : llvm::enumerate(traces))
    for (const BodyRun &run : trace.runs)
      for (const Event &event : trace.bodies[run.body])
        if (event.kind == Event::Kind::Start &&
            leaves(trace.collectives[event.number]))
          return Fault{Fault::Kind::Collectives,
                       trace.describe(event, run) +
                           " is of ranks along \"data\", which run this "
                           "program each for its own texts",
                       {{who, event.origin}}};
  return std::nullopt;
}

struct Communication : heddle::impl::ProveCommunicationBase<Communication> {
  using Base::Base;

  void runOnOperation() override {
    auto programs = programsOf(getOperation());
    if (programs.empty())
      return;
    if (failed(checkStages(programs)) || failed(checkConditions(programs)))
      return signalPassFailure();
    llvm::SetVector<Step> steps;
    for (planir::ProgramOp program : programs)
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind())
          steps.insert({sequence.getSymNameAttr(), sequence.getKindAttr()});
    for (Step step : steps)
      if (failed(checkPhase(programs, step)) || failed(prove(programs, step)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// Checks that all stages have the same conditions in the same order, so that
  /// all ranks skip the same layers in a step.
  LogicalResult checkConditions(MutableArrayRef<planir::ProgramOp> programs) {
    auto conditionsOf = [](planir::ProgramOp program) {
      SmallVector<std::pair<Attribute, Attribute>> all;
      for (auto condition : program.getOps<planir::ConditionOp>())
        all.push_back({condition.getSymNameAttr(), condition.getHoldsAttr()});
      return all;
    };
    for (planir::ProgramOp program : programs)
      if (conditionsOf(program) != conditionsOf(programs.front()))
        return program.emitError("H0916: has other conditions than stage 0, so "
                                 "ranks would skip different layers");
    return success();
  }

  /// Checks that a train program has the same phase on all stages. Otherwise
  /// ranks would run different programs in a step.
  LogicalResult checkPhase(MutableArrayRef<planir::ProgramOp> programs,
                           Step step) {
    planir::SequenceOp first = stepOf(programs.front(), step);
    for (planir::ProgramOp program : programs) {
      planir::SequenceOp own = stepOf(program, step);
      if (!own || !first || own.getPhaseAttr() == first.getPhaseAttr())
        continue;
      auto describe = [](planir::SequenceOp sequence) {
        nn::PhaseAttr phase = sequence.getPhaseAttr();
        return phase ? "the phase " + phase.getName().str() + " from " +
                           nn::beginOf(phase)
                     : "no phase";
      };
      return own.emitError("H0916: has ")
             << describe(own) << ", and on stage 0 " << describe(first)
             << ", so ranks would run different programs in a step";
    }
    return success();
  }

  /// Checks that there is a program for every stage of the mesh, in order.
  LogicalResult checkStages(MutableArrayRef<planir::ProgramOp> programs) {
    plan::Mesh mesh = meshOf(programs.front());
    for (auto [stage, program] : llvm::enumerate(programs))
      if (program.getStage().value_or(0) != stage)
        return program.emitError("H0917: is the program of stage ")
               << program.getStage().value_or(0) << ", that of stage " << stage
               << " is missing";
    if (mesh.stages() != static_cast<int64_t>(programs.size()))
      return programs.back().emitError("H0917: is the last of ")
             << programs.size() << " stages, the mesh has " << mesh.stages();
    return success();
  }

  LogicalResult prove(MutableArrayRef<planir::ProgramOp> programs, Step which) {
    plan::Mesh mesh = meshOf(programs.front());
    std::vector<ProgramTrace> made;
    bool isApart = false;
    int64_t number = everyRank ? mesh.ranks() : mesh.stages();
    for (int64_t who = 0; who < number; ++who) {
      planir::ProgramOp program = programs[who * mesh.stages() / number];
      planir::SequenceOp step = stepOf(program, which);
      if (!step)
        return program.emitError("H0917: has no step program ")
               << which.first << ", which another stage has";
      isApart = isOfOneGroup(program, step);
      FailureOr<ProgramTrace> unrolled =
          traceOf(program, step, everyRank ? std::optional(who) : std::nullopt);
      if (failed(unrolled))
        return failure();
      made.push_back(std::move(*unrolled));
    }
    std::vector<Trace> traces;
    for (ProgramTrace &unrolled : made) {
      traces.push_back(std::move(unrolled.trace));
      numMessages += traces.back().messages.size();
    }
    std::optional<Fault> fault;
    if (isApart)
      fault = checkApart(mesh, traces);
    if (!fault)
      fault =
          everyRank ? checkAll(mesh, traces) : checkCommunication(mesh, traces);
    if (fault)
      report(*fault, made);
    return failure(fault.has_value());
  }
};

} // namespace
