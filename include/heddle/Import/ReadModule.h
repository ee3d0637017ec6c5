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

/// Reads and verifies a module. Each operation gets its position in the file as
/// a location, in addition to the module path that dumps contain. Later errors
/// about the operation, or about what a pass made of it, then name the
/// position. Returns null, after diagnostics, if the file cannot be read or
/// does not verify.
mlir::OwningOpRef<mlir::ModuleOp> readModule(mlir::MLIRContext &context,
                                             llvm::StringRef file);

} // namespace heddle

#endif // HEDDLE_IMPORT_READMODULE_H
