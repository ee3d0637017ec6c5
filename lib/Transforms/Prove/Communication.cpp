//===- Communication.cpp - No rank waits for ever, or meets a race --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTraces.h"
#include "heddle/Transforms/Prove/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

namespace heddle {
#define GEN_PASS_DEF_PROVECOMMUNICATION
#include "include/heddle/Transforms/Prove/Passes.h.inc"
} // namespace heddle

namespace {

planir::SequenceOp stepOf(planir::ProgramOp program, nn::ProgramKind kind) {
  for (auto sequence : program.getOps<planir::SequenceOp>())
    if (sequence.getKind() == kind)
      return sequence;
  return {};
}

struct Communication : heddle::impl::ProveCommunicationBase<Communication> {
  using Base::Base;

  void runOnOperation() override {
    auto programs = programsOf(getOperation());
    if (programs.empty())
      return;
    if (failed(checkStages(programs)))
      return signalPassFailure();
    llvm::SetVector<nn::ProgramKind> kinds;
    for (planir::ProgramOp program : programs)
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind())
          kinds.insert(*sequence.getKind());
    for (nn::ProgramKind kind : kinds)
      if (failed(prove(programs, kind)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// There is a program for every stage of the mesh, and it is that stage's.
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

  LogicalResult prove(MutableArrayRef<planir::ProgramOp> programs,
                      nn::ProgramKind kind) {
    plan::Mesh mesh = meshOf(programs.front());
    std::vector<ProgramTrace> made;
    int64_t number = everyRank ? mesh.ranks() : mesh.stages();
    for (int64_t who = 0; who < number; ++who) {
      planir::ProgramOp program = programs[who * mesh.stages() / number];
      planir::SequenceOp step = stepOf(program, kind);
      if (!step)
        return program.emitError("H0917: has no step program \"")
               << stringifyProgramKind(kind) << "\", which another stage has";
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
    std::optional<Fault> fault =
        everyRank ? checkAll(mesh, traces) : checkCommunication(mesh, traces);
    if (fault)
      report(*fault, made);
    return failure(fault.has_value());
  }
};

} // namespace
