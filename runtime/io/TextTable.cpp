//===- TextTable.cpp - Tables of text -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/TextTable.h"

#include <algorithm>

using namespace heddle;

std::vector<std::string> io::tableLines(const std::vector<TableRow> &rows,
                                        bool lastIsText) {
  std::vector<size_t> widths;
  for (const TableRow &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const TableRow &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      bool isText = lastIsText && i + 1 == row.size();
      std::string fill(isText ? 0 : widths[i] - row[i].size(), ' ');
      line += " " + (isText || i == 0 ? row[i] + fill : fill + row[i]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}
