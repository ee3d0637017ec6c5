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

/// The rows of a table that ids name, written one after the other.
struct RowChoice {
  /// Size of a row, and number of rows of the table.
  int64_t rowBytes = 0, rows = 0;
  const int32_t *ids = nullptr;
  int64_t count = 0; ///< Number of ids.
  /// Set if the table is a shard: its first row in the whole table. Ids of rows
  /// in other shards yield zeros.
  std::optional<int64_t> first{};
  /// Fills the row of an id that is out of range: NaN in every float type.
  static constexpr int noRow = 0xff;
  /// The largest row that is supported, which limits buffers.
  static constexpr int64_t mostRowBytes = int64_t(1) << 20;

  /// Returns the row in this table that an id names, which may be out of range.
  int64_t rowOf(int32_t id) const { return id - first.value_or(0); }
  bool has(int32_t id) const { return rowOf(id) >= 0 && rowOf(id) < rows; }
  /// Writes the row for an id that is not in this table.
  void fillWithout(char *target) const {
    memset(target, first ? 0 : noRow, rowBytes);
  }
  /// Returns the part of this choice that begins at id number `begin` and has
  /// at most `most` ids.
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
