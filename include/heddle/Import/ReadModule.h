//===- ReadModule.h - Reads an .mlir file of a user -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads MLIR text from users, robustly and with positions for error messages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_READMODULE_H
#define HEDDLE_IMPORT_READMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>

namespace heddle {

/// A construct that would crash MLIR's parser: it recurses for each nested
/// bracket, and creates as many values as a result number says.
struct ParserHazard {
  size_t place;       ///< Position in the text.
  const char *reason; ///< A description for the user.
};
std::optional<ParserHazard> findHazard(llvm::StringRef text);

/// Reads and verifies a module. Each operation gets the position in the file as
/// a location, beside the module path that a dump has, so that later errors
/// about it, or about what a pass made of it, point into the file. Returns
/// null, with diagnostics, if the file cannot be read or does not verify.
mlir::OwningOpRef<mlir::ModuleOp> readModule(mlir::MLIRContext &context,
                                             llvm::StringRef file);

} // namespace heddle

#endif // HEDDLE_IMPORT_READMODULE_H
