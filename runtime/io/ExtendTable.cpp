//===- ExtendTable.cpp - Make a table of positions longer -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ExtendTable.h"

#include <cstring>

using namespace heddle;
using namespace heddle::io;

void io::extendTable(WeightSet &weights, const TensorInfo &table,
                     const plan::ExtendedTable &how) {
  if (table.coded || table.extension || table.shape.size() != 2 ||
      !isFloatType(table.dtype) || table.shape[0] <= how.first ||
      table.shape[0] >= how.rows)
    return;
  TensorInfo longer = table;
  longer.extension =
      std::make_shared<TableExtension>(TableExtension{table, how});
  longer.bytes = table.bytes / table.shape[0] * how.rows;
  longer.shape[0] = how.rows;
  weights.replace(longer);
}

namespace {

/// Writes the rows of the longer table.
class RowWriter {
public:
  RowWriter(const TableExtension &extension, const WeightSet &weights)
      : how(extension.how), dtype(extension.table.dtype),
        width(extension.table.shape[1]),
        positions(extension.table.shape[0] - how.first),
        rowBytes(width * dtypeBits(dtype) / 8),
        source(weights.data(extension.table)) {}

  std::vector<uint8_t> write();

private:
  const uint8_t *row(int64_t position) const {
    return source + (how.first + position) * rowBytes;
  }
  std::vector<float> valuesOf(int64_t position) const {
    std::vector<float> values(width);
    convertElements(row(position), dtype, values.data(), "F32", width);
    return values;
  }
  void interpolate(int64_t position, uint8_t *target) const;

  const plan::ExtendedTable &how;
  const std::string &dtype;
  int64_t width;
  int64_t positions; ///< Positions of the files' table.
  int64_t rowBytes;
  const uint8_t *source;
};

} // namespace

void RowWriter::interpolate(int64_t position, uint8_t *target) const {
  const int64_t last = how.rows - how.first - 1;
  const int64_t product = position * (positions - 1);
  const int64_t below = product / last;
  const float part = float(double(product % last) / double(last));
  if (part == 0) {
    std::memcpy(target, row(below), rowBytes);
    return;
  }
  std::vector<float> values = valuesOf(below), above = valuesOf(below + 1);
  for (int64_t i = 0; i < width; ++i)
    values[i] += part * (above[i] - values[i]);
  convertElements(values.data(), "F32", target, dtype, width);
}

std::vector<uint8_t> RowWriter::write() {
  std::vector<uint8_t> bytes(how.rows * rowBytes);
  std::memcpy(bytes.data(), source, how.first * rowBytes);
  for (int64_t i = 0; i < how.rows - how.first; ++i) {
    uint8_t *target = bytes.data() + (how.first + i) * rowBytes;
    if (how.interpolates)
      interpolate(i, target);
    else
      std::memcpy(target, row(i % positions), rowBytes);
  }
  return bytes;
}

std::vector<uint8_t> io::extendedRows(const TensorInfo &table,
                                      const WeightSet &weights) {
  std::vector<uint8_t> bytes = RowWriter(*table.extension, weights).write();
  const TensorInfo &read = table.extension->table;
  weights.forget(read, 0, read.bytes);
  return bytes;
}
