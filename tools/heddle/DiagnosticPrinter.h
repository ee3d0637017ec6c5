//===- DiagnosticPrinter.h - MLIR's diagnostics as errors -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns MLIR's diagnostics about a user's model or .mlir file into Heddle's
// errors.
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

/// Prints MLIR's diagnostics as Heddle's errors, and keeps the exit status of
/// the first one.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, bool verbose);
  ~DiagnosticPrinter();

  /// The error code for messages that contain none.
  std::string defaultCode = "H0900";
  /// Whether the user wrote the module or may have edited it. If so, a violated
  /// invariant is reported as the user's error, otherwise as an internal error.
  bool isUsersModule = false;
  /// If not null, errors are added to this list instead of being printed.
  std::vector<heddle::Diagnostic> *errors = nullptr;
  /// If not null, remarks are added to this list instead of being printed, each
  /// with the path of its module.
  std::vector<std::pair<std::string, std::string>> *remarks = nullptr;
  /// 0 without errors.
  int exitCode = 0;
  std::string firstCode; ///< Code of the first error; empty without one.

  /// Reads a file by calling `read`. An error without a code is reported as an
  /// error in the file. The process exits as soon as the first error is
  /// printed, because MLIR's parser may write to freed memory after an error in
  /// a region whose values are used outside of the region.
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
