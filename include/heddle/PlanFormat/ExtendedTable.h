//===- ExtendedTable.h - A longer table of positions ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_EXTENDEDTABLE_H
#define HEDDLE_PLANFORMAT_EXTENDEDTABLE_H

#include <cstdint>
#include <string>

namespace heddle::plan {

/// A table of learned positions that may have more rows in the model than in
/// the weight files (--extend-positions). Loading makes the missing rows.
struct ExtendedTable {
  std::string tensor; ///< Its name in the weight files; "": no such table.
  int64_t rows = 0;   ///< Rows of the table in the model.
  /// Rows at the beginning that are for no position, and stay as they are.
  int64_t first = 0;
  /// Whether the rows of positions are interpolated; otherwise they are
  /// repeated.
  bool interpolates = false;
  /// Rows of the table in the weight files. Other weights for the same binary
  /// must have as many, or the rows of the model.
  int64_t sourceRows = 0;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_EXTENDEDTABLE_H
