//===- TextTable.h - Tables of text -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats tables for the console.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEXTTABLE_H
#define HEDDLE_RUNTIME_IO_TEXTTABLE_H

#include <string>
#include <vector>

namespace heddle::io {

using TableRow = std::vector<std::string>;

/// Returns the lines of a table, indented by two blanks. The first column is
/// aligned on the left, the others on the right. With `lastIsText`, the last
/// text of each row is on the left too, and may be of any width.
std::vector<std::string> tableLines(const std::vector<TableRow> &rows,
                                    bool lastIsText = false);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TEXTTABLE_H
