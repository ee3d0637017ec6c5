//===- Phases.h - Checks the phases of train programs -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model or plan may have several train programs, each with a phase
// (#nn.phase). The verifiers of both levels check the phases here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PHASES_H
#define HEDDLE_DIALECTS_NN_PHASES_H

#include "dialects/NN/NNDialect.h"
#include "heddle/PlanFormat/Phase.h"

namespace heddle::nn {

/// A program of a model or plan, and its phase; null if it has none.
struct ProgramPhase {
  mlir::Operation *program;
  bool trains;
  PhaseAttr phase;
};

/// Checks that exactly one train program runs in each step: if there are
/// several, each has a phase, names and first steps (or first updates) differ,
/// one phase begins at 1, and all count steps or all count updates. Other
/// programs have no phase.
mlir::LogicalResult verifyPhases(llvm::ArrayRef<ProgramPhase> programs);

/// The phase in the plan's form. `phase` may be null.
plan::Phase toPlan(PhaseAttr phase);

/// The name of the program of kind `kind` with this phase, such as `train` or
/// `train.late`. `phase` may be null.
std::string programName(ProgramKind kind, PhaseAttr phase);

/// When a phase begins, such as `step 5` or `update 400`.
std::string beginOf(PhaseAttr phase);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_PHASES_H
