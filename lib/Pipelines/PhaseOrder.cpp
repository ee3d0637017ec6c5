//===- PhaseOrder.cpp - Checks that phases run in order -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/PhaseOrder.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace heddle;

InFlightDiagnostic heddle::emitOtherPhase(Location location,
                                          llvm::StringRef done,
                                          llvm::StringRef expected) {
  return emitError(location) << "H0113: this module was dumped after the phase "
                             << done << ", not after " << expected;
}

/// Returns the phase whose dumps `phase` accepts, which is the one directly
/// before it.
static Phase before(Phase phase) {
  return static_cast<Phase>(static_cast<int>(phase) - 1);
}

/// Returns the flags of heddle-opt that run the phases after `done`, up to and
/// including `last`. An error message suggests them.
static std::string pipelinesBetween(Phase done, Phase last) {
  std::string flags;
  for (Phase phase : allPhases())
    if (phase > done && phase <= last)
      flags +=
          (flags.empty() ? "--phase-" : " --phase-") + phaseName(phase).str();
  return flags;
}

static LogicalResult refuseOtherPhase(Operation *root, llvm::StringRef done,
                                      Phase phase) {
  llvm::StringRef expected =
      phase == Phase::Import ? "forward" : phaseName(before(phase));
  std::optional<Phase> known = parsePhase(done);
  if (!known)
    return root->emitError("H0396: there is no phase \"") << done << "\"";
  InFlightDiagnostic error = emitOtherPhase(root->getLoc(), done, expected);
  if (*known >= phase)
    error.attachNote() << "help: give --phase-" << phaseName(phase)
                       << " the dump " << expected << ".mlir";
  else
    error.attachNote() << "help: give the dump " << expected
                       << ".mlir, or run the phases between: "
                       << pipelinesBetween(*known, phase);
  return error;
}

namespace {

/// Fails for a module that was dumped after another phase than the previous
/// one. A module without the attribute `phase` was written by hand. In that
/// case the passes themselves report what is missing.
struct CheckPhase : PassWrapper<CheckPhase, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckPhase)
  explicit CheckPhase(Phase phase) : phase(phase) {}
  StringRef getName() const override { return "CheckPhase"; }

  void runOnOperation() override {
    for (Operation &root : getOperation().getOps()) {
      auto done = root.getAttrOfType<StringAttr>("phase");
      bool isBefore =
          done &&
          (phase == Phase::Import
               ? done.getValue() == "forward" || done.getValue() == "import"
               : done.getValue() == phaseName(before(phase)));
      if (done && !isBefore) {
        (void)refuseOtherPhase(&root, done.getValue(), phase);
        return signalPassFailure();
      }
    }
  }

  Phase phase;
};

/// Sets the attribute `phase`, if there is one, to the phase that has run. The
/// pipeline of the next phase then accepts the module, as it accepts a dump.
struct NamePhase : PassWrapper<NamePhase, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NamePhase)
  explicit NamePhase(Phase phase) : phase(phase) {}
  StringRef getName() const override { return "NamePhase"; }

  void runOnOperation() override {
    for (Operation &root : getOperation().getOps())
      if (root.hasAttr("phase"))
        root.setAttr("phase", StringAttr::get(&getContext(), phaseName(phase)));
  }

  Phase phase;
};

} // namespace

void heddle::buildPhaseOfDump(Phase phase, OpPassManager &pm) {
  pm.addPass(std::make_unique<CheckPhase>(phase));
  buildPhase(phase, pm, {});
  pm.addPass(std::make_unique<NamePhase>(phase));
}
