//===- RowChoice.h - Some rows of a table -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_ROWCHOICE_H
#define HEDDLE_RUNTIME_IO_ROWCHOICE_H

#include <cstdint>
#include <cstring>

namespace heddle::io {

/// The rows of a table that ids name, one behind the other.
struct RowChoice {
  int64_t rowBytes = 0, rows = 0; ///< Of the table.
  const int32_t *ids = nullptr;
  int64_t count = 0; ///< Of ids.
  /// Each byte for an id that is no row: NaN in every floating type.
  static constexpr int noRow = 0xff;
  /// A larger row is nobody's: buffers have room for one.
  static constexpr int64_t mostRowBytes = int64_t(1) << 20;

  bool has(int32_t id) const { return id >= 0 && id < rows; }
  /// Copies them out of a table in memory.
  void gather(char *target, const char *table) const {
    for (int64_t t = 0; t < count; ++t, target += rowBytes)
      if (has(ids[t]))
        memcpy(target, table + ids[t] * rowBytes, rowBytes);
      else
        memset(target, noRow, rowBytes);
  }
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_ROWCHOICE_H
