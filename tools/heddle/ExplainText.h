//===- ExplainText.h - Figures and tables for people ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H

#include <string>
#include <vector>

namespace heddle::driver {

/// The value as printf's `format` writes it.
std::string formatNumber(const char *format, double value);
/// As `3.10 GFLOP`.
std::string formatFlops(double flops);
/// As `1.25 ms`.
std::string formatSeconds(double seconds);

/// Characters in a line of standard output: what COLUMNS says, or the terminal;
/// 80 where there is none.
size_t terminalWidth();

using TableRow = std::vector<std::string>;
/// Prints rows in aligned columns: the first and the last to the left.
void printTable(const std::vector<TableRow> &rows);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINTEXT_H
