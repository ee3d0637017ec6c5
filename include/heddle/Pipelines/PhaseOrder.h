//===- PhaseOrder.h - Checks that phases run in order -----------*- C++ -*-===//
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

/// Emits the error H0113 for a module that was dumped after another phase than
/// expected. The error does not print the operation, because the operation may
/// be a whole model.
mlir::InFlightDiagnostic emitOtherPhase(mlir::Location location,
                                        llvm::StringRef done,
                                        llvm::StringRef expected);

/// Adds the pipeline of a phase for heddle-opt. The pipeline fails if its input
/// is a dump of another phase than the previous one. If its input has the
/// attribute `phase`, it sets the attribute to the name of its own phase.
void buildPhaseOfDump(Phase phase, mlir::OpPassManager &pm);

} // namespace heddle

#endif // HEDDLE_PIPELINES_PHASEORDER_H
