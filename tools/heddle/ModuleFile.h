//===- ModuleFile.h - Reads a dump ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads dumps of the IR, for `heddle compile --start-from` and for `heddle
// eval`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_MODULEFILE_H
#define HEDDLE_TOOLS_HEDDLE_MODULEFILE_H

#include "CompileJob.h"
#include "heddle/Pipelines/Compile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::driver {

/// IR that a compilation has dumped, and that the user may have edited.
struct UserModule {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< Null after an error.
  /// The operations whose attribute `strategy` holds the settings of the
  /// compilation: one, or one for each pipeline stage.
  llvm::SmallVector<mlir::Operation *> roots;
  Phase done = Phase::Import; ///< The phase after which it was dumped.
};

/// Reads and verifies an .mlir file, and finds the phase that wrote it.
UserModule readUserModule(mlir::MLIRContext &context, const std::string &path);

/// Parses the job's IR dump, and checks that it was written after the phase
/// `startFrom` (a group of passes). Updates the settings in the dump with the
/// values of flags and files. A changed setting that an earlier phase has
/// already used is an error. Returns null after an error.
mlir::OwningOpRef<mlir::ModuleOp> readModuleFile(mlir::MLIRContext &context,
                                                 const CompileJob &job);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_MODULEFILE_H
