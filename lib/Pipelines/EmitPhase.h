//===- EmitPhase.h - The emit phase -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last phase (emit) is no MLIR pipeline. It collects the plan, the objects
// of kernels, and what `explain` prints. The driver writes a binary from these.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_EMITPHASE_H
#define HEDDLE_LIB_PIPELINES_EMITPHASE_H

#include "heddle/Emit/WriteBinary.h"
#include "heddle/Pipelines/Compile.h"
#include "heddle/runtime/io/Diagnostic.h"

namespace heddle {

/// Emits a diagnostic as an MLIR error without a location, because it is about
/// a file and not about the module.
mlir::LogicalResult emitDiagnostic(mlir::MLIRContext &context,
                                   const heddle::Diagnostic &wrong);

/// Makes the plan and the code that are written to a binary for a module.
/// `phases` are the phases that have run, which `explain` prints.
mlir::FailureOr<emit::Code> codeOf(mlir::ModuleOp module,
                                   const CompileOptions &options,
                                   std::vector<std::string> phases);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_EMITPHASE_H
