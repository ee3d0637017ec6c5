//===- ReadModule.h - Reads an .mlir file of a user -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads MLIR text from users. Invalid text does not crash the compiler, and
// error messages name positions in the text.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_READMODULE_H
#define HEDDLE_IMPORT_READMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>

namespace heddle {

/// A place in the text at which MLIR's parser would crash. The parser recurses
/// for each nested bracket, so that too many nested brackets overflow its
/// stack. If a value name has a result number, as in `%a#1`, the parser creates
/// as many values as this number says.
struct ParserHazard {
  size_t place;       ///< Position in the text.
  const char *reason; ///< A description for the user.
};
std::optional<ParserHazard> findHazard(llvm::StringRef text);

/// Reads and verifies a module. The location of each operation gets the
/// operation's position in the file, in addition to the module path that dumps
/// contain. Errors about the operation then name this position, even after
/// passes have transformed the operation. Returns null, after diagnostics, if
/// the file cannot be read or does not verify.
mlir::OwningOpRef<mlir::ModuleOp> readModule(mlir::MLIRContext &context,
                                             llvm::StringRef file);

} // namespace heddle

#endif // HEDDLE_IMPORT_READMODULE_H
