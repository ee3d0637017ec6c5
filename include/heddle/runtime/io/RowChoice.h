//===- RowChoice.h - Gather rows of a table ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gather of table rows by ids, as an embedding lookup does it, on tables in
// memory or in a file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_ROWCHOICE_H
#define HEDDLE_RUNTIME_IO_ROWCHOICE_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace heddle::io {

/// A gather: selects those rows of a table that `ids` name, and writes the rows
/// one after the other.
struct RowChoice {
  /// The bytes of a row, and the number of rows of the table.
  int64_t rowBytes = 0, rows = 0;
  const int32_t *ids = nullptr;
  int64_t count = 0; ///< Number of ids.
  /// Set if the table is a shard of a larger table: the shard's first row has
  /// this index in the larger table. For an id whose row is in another shard
  /// the gather writes zeros, so that the sum of the results of all shards is
  /// the whole result.
  std::optional<int64_t> first{};
  /// For an id that is out of range, the gather sets every byte of the result
  /// row to this value. The elements of the row are then NaN in every float
  /// type.
  static constexpr int noRow = 0xff;
  /// The most bytes that a row may have. A buffer through which rows are copied
  /// to a GPU has room for at least one such row.
  static constexpr int64_t mostRowBytes = int64_t(1) << 20;

  /// Returns the index of the row in this table that `id` names. The index may
  /// be out of range.
  int64_t rowOf(int32_t id) const { return id - first.value_or(0); }
  bool has(int32_t id) const { return rowOf(id) >= 0 && rowOf(id) < rows; }
  /// Writes the result row for an id that is not in this table: zeros if the
  /// table is a shard, else NaN.
  void fillWithout(char *target) const {
    memset(target, first ? 0 : noRow, rowBytes);
  }
  /// Returns a gather of the rows of `ids[begin]` and the ids that follow, at
  /// most `most` ids.
  RowChoice part(int64_t begin, int64_t most) const {
    RowChoice some = *this;
    some.ids += begin;
    some.count = std::min(most, count - begin);
    return some;
  }
  /// Copies the rows out of a table in memory.
  void gather(char *target, const char *table) const {
    for (int64_t t = 0; t < count; ++t, target += rowBytes)
      if (has(ids[t]))
        memcpy(target, table + rowOf(ids[t]) * rowBytes, rowBytes);
      else
        fillWithout(target);
  }
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_ROWCHOICE_H
