//===- DiagnosticPrinter.h - MLIR's diagnostics as errors -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_DIAGNOSTICPRINTER_H
#define HEDDLE_TOOLS_HEDDLE_DIAGNOSTICPRINTER_H

#include "heddle/runtime/io/Diagnostic.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <string>
#include <vector>

namespace heddle::driver {

/// Prints MLIR's diagnostics as Heddle's errors, and remembers the exit status
/// of the first one.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, bool verbose);
  ~DiagnosticPrinter();

  /// The code of errors that do not begin with one.
  std::string defaultCode = "H0900";
  /// Whether the module is the user's: that it breaks what a phase promises is
  /// then no fault of the phase.
  bool isUsersModule = false;
  /// Takes the errors, unless it is null: nothing is printed then.
  std::vector<heddle::Diagnostic> *errors = nullptr;
  /// 0 when there was no error.
  int exitCode = 0;
  std::string firstCode; ///< Of the first error, or "".

  /// Reads a file by `read`: errors without a code are about the file, and the
  /// process ends with the first one, once it is printed. MLIR's parser may
  /// write to freed memory when it gives up in a region of which a value is
  /// used outside.
  void parse(llvm::function_ref<void()> read);

private:
  bool endsProcess = false;
  void print(mlir::Diagnostic &diagnostic);
  mlir::MLIRContext &context;
  mlir::DiagnosticEngine &engine;
  bool verbose;
  uint64_t handler = 0;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_DIAGNOSTICPRINTER_H
