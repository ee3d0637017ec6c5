//===- EmitPhase.h - The last phase: the binary is written ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_EMITPHASE_H
#define HEDDLE_LIB_PIPELINES_EMITPHASE_H

#include "heddle/Emit/WriteBinary.h"
#include "heddle/Pipelines/Compile.h"
#include "heddle/runtime/io/Diagnostic.h"

namespace heddle {

/// Emits what went wrong outside of the module, with a file, as an error.
mlir::LogicalResult emitDiagnostic(mlir::MLIRContext &context,
                                   const heddle::Diagnostic &wrong);

/// What the module's program adds to a binary. `phases` are those that have run
/// so far; `explain` shows them.
mlir::FailureOr<emit::Code> codeOf(mlir::ModuleOp module,
                                   const CompileOptions &options,
                                   std::vector<std::string> phases);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_EMITPHASE_H
