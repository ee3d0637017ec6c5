//===- TextTable.h - Tables of text -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats tables for the console.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TEXTTABLE_H
#define HEDDLE_RUNTIME_APP_TEXTTABLE_H

#include <string>
#include <vector>

namespace heddle::rt {

/// Returns the lines of a table, indented by two blanks. The first column is
/// aligned on the left, all others on the right.
std::vector<std::string>
tableLines(const std::vector<std::vector<std::string>> &rows);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TEXTTABLE_H
