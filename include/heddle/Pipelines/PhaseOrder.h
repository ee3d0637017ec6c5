//===- PhaseOrder.h - Which phase a dump is of ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_PHASEORDER_H
#define HEDDLE_PIPELINES_PHASEORDER_H

#include "heddle/Pipelines/Compile.h"
#include "mlir/IR/Diagnostics.h"

namespace heddle {

/// The error (H0113) of a module that is not of the phase that was expected.
/// The operation is not printed with it: it may be a whole model.
mlir::InFlightDiagnostic emitOtherPhase(mlir::Location location,
                                        llvm::StringRef done,
                                        llvm::StringRef expected);

/// The pipeline of a phase for heddle-opt: refuses the dump of another phase
/// than the one before, and names the phase in what it leaves.
void buildPhaseOfDump(Phase phase, mlir::OpPassManager &pm);

} // namespace heddle

#endif // HEDDLE_PIPELINES_PHASEORDER_H
