//===- ExtendTable.h - Make a table of positions longer ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_EXTENDTABLE_H
#define HEDDLE_RUNTIME_IO_EXTENDTABLE_H

#include "heddle/PlanFormat/ExtendedTable.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::io {

/// How a tensor with more rows is computed from one of the files.
struct TableExtension {
  TensorInfo table;        ///< The tensor of the files.
  plan::ExtendedTable how; ///< The rows to make.
};

/// Replaces a tensor of `weights`, a table of positions, by a table with the
/// rows that `how` asks for, of the same name and type. Does nothing if the
/// files' table has as many rows already.
///
/// The files' table has n positions and the new one has N. If rows are
/// repeated, position i has the row of position i mod n. If they are
/// interpolated, it has that of x = i (n - 1) / (N - 1), so that the first and
/// the last position keep their rows: row floor(x) + (x - floor(x)) (row
/// floor(x) + 1 - row floor(x)), computed in fp32 and rounded to the files'
/// type.
void extendTable(WeightSet &weights, const TensorInfo &table,
                 const plan::ExtendedTable &how);

/// Computes the elements of a tensor that `extendTable` has put into `weights`.
std::vector<uint8_t> extendedRows(const TensorInfo &table,
                                  const WeightSet &weights);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_EXTENDTABLE_H
