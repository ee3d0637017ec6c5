//===- ModuleFile.h - A module that the user hands in -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_MODULEFILE_H
#define HEDDLE_TOOLS_HEDDLE_MODULEFILE_H

#include "CompileJob.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::driver {

/// Parses the .mlir file of the job, checks that it was dumped after the phase
/// that the job starts from, and gives its strategy the values of flags and
/// files that no phase has used up yet. Null after an error.
mlir::OwningOpRef<mlir::ModuleOp> readModuleFile(mlir::MLIRContext &context,
                                                 const CompileJob &job);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_MODULEFILE_H
