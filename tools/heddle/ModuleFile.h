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
#include "heddle/Pipelines/Compile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::driver {

/// A module that the user handed in.
struct UserModule {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< Null after an error.
  /// What carries the strategy: one, or one for each pipeline stage.
  llvm::SmallVector<mlir::Operation *> roots;
  Phase done = Phase::Import; ///< The phase that it was dumped after.
};

/// Reads and verifies an .mlir file.
UserModule readUserModule(mlir::MLIRContext &context, const std::string &path);

/// Parses the .mlir file of the job, checks that it was dumped after the phase
/// that the job starts from, and gives its strategy the values of flags and
/// files that no phase has used up yet. Null after an error.
mlir::OwningOpRef<mlir::ModuleOp> readModuleFile(mlir::MLIRContext &context,
                                                 const CompileJob &job);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_MODULEFILE_H
