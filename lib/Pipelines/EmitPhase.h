//===- EmitPhase.h - The last phase: the binary is written ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_EMITPHASE_H
#define HEDDLE_LIB_PIPELINES_EMITPHASE_H

#include "heddle/Pipelines/Compile.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/Diagnostic.h"

namespace heddle {

/// Emits what went wrong as an error of the operation.
mlir::LogicalResult emitDiagnostic(mlir::Operation *op,
                                   const heddle::Diagnostic &wrong);

/// Writes the binary of the module's program to `options.output`. `phases` are
/// the times of the phases so far; `explain` shows them.
mlir::LogicalResult emitModule(mlir::ModuleOp module,
                               const CompileOptions &options,
                               const std::vector<plan::PhaseTime> &phases);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_EMITPHASE_H
