//===- ExplainText.h - Numbers and tables as text ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers of the verbs that print tables.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H

#include "heddle/PlanFormat/Mesh.h"
#include "heddle/runtime/io/TextTable.h"
#include <string>
#include <vector>

namespace heddle::driver {

/// Formats a value by the printf format string `format`.
std::string formatNumber(const char *format, double value);
/// As `3.10 GFLOP`.
std::string formatFlops(double flops);
/// As `1.25 ms`.
std::string formatSeconds(double seconds);
/// Formats a mesh as `4 ranks: data 2, tensor 2`.
std::string meshText(const plan::Mesh &mesh);

/// Returns the width of lines on standard output, in characters: the variable
/// COLUMNS, or the width of the terminal. If both are unknown, it is 80.
size_t terminalWidth();

using io::TableRow;
/// Prints rows in aligned columns. The first and the last column are
/// left-aligned, the others right-aligned.
void printTable(const std::vector<TableRow> &rows);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H
