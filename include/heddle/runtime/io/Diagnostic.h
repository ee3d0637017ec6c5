//===- Diagnostic.h - Errors that a user can mend ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One error type for the compiler's readers and the runtime. It prints as
//
//   error[H0107]: unknown key "gradient_clipp1ng"
//     --> ds_config.json:3:3
//      |  "gradient_clipp1ng": 1.0
//      |  ^
//     help: did you mean "gradient_clipping"?
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_DIAGNOSTIC_H
#define HEDDLE_RUNTIME_IO_DIAGNOSTIC_H

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace heddle {

/// A position in a text file. `line` and `column` count from 1; 0: unknown.
struct SourceLocation {
  std::string file;
  int64_t line = 0;
  int64_t column = 0;
};

/// An error in the user's input or environment. `code` is one of docs/errors.md
/// and determines the exit status.
struct Diagnostic {
  std::string code; ///< As "H0107".
  std::string message;
  SourceLocation location;
  /// Facts that explain the error, for example "data ranks = 4". Each of them
  /// is printed on its own line.
  std::vector<std::string> notes;
  std::string help; ///< At least one change that avoids the error.

  /// Returns the whole message, with the source line and a caret if known.
  std::string format() const;
  /// Returns the exit status that `code` determines: 2 for H01xx, 4 for H02xx,
  /// 3 for H03xx, 5 for H04xx, 1 for H09xx.
  int exitCode() const;
};

/// The exception of the readers and of the runtime. It is caught once, in
/// `main` of a tool or binary, and never crosses an LLVM or MLIR frame.
class UserError : public std::exception {
public:
  explicit UserError(Diagnostic diagnostic)
      : diagnostic(std::move(diagnostic)) {}
  const char *what() const noexcept override {
    return diagnostic.message.c_str();
  }
  Diagnostic diagnostic;
};

/// Throws a UserError.
[[noreturn]] void fail(std::string code, std::string message,
                       std::string help = "", SourceLocation location = {});

/// Returns the candidate with the smallest edit distance to `word`, or "" when
/// none is close enough.
std::string closestMatch(const std::string &word,
                         const std::vector<std::string> &candidates);

} // namespace heddle

#endif // HEDDLE_RUNTIME_IO_DIAGNOSTIC_H
