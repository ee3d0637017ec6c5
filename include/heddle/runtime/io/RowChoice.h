//===- RowChoice.h - Some rows of a table -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_ROWCHOICE_H
#define HEDDLE_RUNTIME_IO_ROWCHOICE_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace heddle::io {

/// The rows of a table that ids name, one behind the other.
struct RowChoice {
  int64_t rowBytes = 0, rows = 0; ///< Of the table.
  const int32_t *ids = nullptr;
  int64_t count = 0; ///< Of ids.
  /// The table is a part of one, from this row of it on; ids of rows that are
  /// elsewhere give zeros.
  std::optional<int64_t> first{};
  /// Each byte for an id that is no row: NaN in every floating type.
  static constexpr int noRow = 0xff;
  /// A larger row is nobody's: buffers have room for one.
  static constexpr int64_t mostRowBytes = int64_t(1) << 20;

  /// The row of the table that an id names, if it has it.
  int64_t rowOf(int32_t id) const { return id - first.value_or(0); }
  bool has(int32_t id) const { return rowOf(id) >= 0 && rowOf(id) < rows; }
  /// Writes what an id gives that is no row of the table.
  void fillWithout(char *target) const {
    memset(target, first ? 0 : noRow, rowBytes);
  }
  /// Those of `most` ids at most, from one of them on.
  RowChoice part(int64_t begin, int64_t most) const {
    RowChoice some = *this;
    some.ids += begin;
    some.count = std::min(most, count - begin);
    return some;
  }
  /// Copies them out of a table in memory.
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
