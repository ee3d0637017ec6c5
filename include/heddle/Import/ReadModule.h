//===- ReadModule.h - An .mlir file that a user hands in --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_READMODULE_H
#define HEDDLE_IMPORT_READMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>

namespace heddle {

/// What MLIR's parser must not be given: it calls itself for each bracket in
/// another, and makes as many values as a number of a result says.
struct ParserHazard {
  size_t place;       ///< In the text.
  const char *reason; ///< In words, for the user.
};
std::optional<ParserHazard> findHazard(llvm::StringRef text);

/// Reads and verifies a module. The location of every operation names its place
/// in the file, beside the module path that a dump has there, so that whatever
/// is found wrong later, of an operation or of what a pass made of it, points
/// into the file. Gives null, and diagnostics to the context's handler, when it
/// cannot be read or does not verify.
mlir::OwningOpRef<mlir::ModuleOp> readModule(mlir::MLIRContext &context,
                                             llvm::StringRef file);

} // namespace heddle

#endif // HEDDLE_IMPORT_READMODULE_H
