//===- ServedMemory.h - Memory of a binary that serves ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SERVEDMEMORY_H
#define HEDDLE_RUNTIME_APP_SERVEDMEMORY_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Whether the plan generates or encodes, and does not train.
bool isForServing(const plan::Plan &plan);

/// Formats the sizes of memory regions as a list of items such as `weights 8192
/// bytes (8.00 KiB)`, separated by commas. Leaves out empty regions.
std::string
textOfRegions(std::initializer_list<std::pair<const char *, int64_t>> regions);

/// Bytes that a rank of a serving binary maps for its pipeline stage.
struct ServedMemory {
  int64_t weights = 0; ///< Includes padding to whole pages.
  int64_t cache = 0;
  int64_t arena = 0;

  explicit ServedMemory(const plan::Plan &plan);
  int64_t total() const { return weights + cache + arena; }
  /// Formats the bytes of the weights, the key-value cache and the arena
  /// (memory that does not live across steps) as textOfRegions does.
  std::string text() const;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SERVEDMEMORY_H
