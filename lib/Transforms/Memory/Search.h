//===- Search.h - Binary search for what fits -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_SEARCH_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_SEARCH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstddef>

namespace heddle::memory {

/// Returns the largest number up to `limit` for which `fits` returns true.
/// `fits` must return true for 0. If it returns true for a number, it must
/// return true for every smaller number.
inline size_t most(size_t limit, llvm::function_ref<bool(size_t)> fits) {
  if (limit == 0 || fits(limit))
    return limit;
  size_t least = 0;
  while (least + 1 < limit) {
    size_t middle = (least + limit) / 2;
    (fits(middle) ? least : limit) = middle;
  }
  return least;
}

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_SEARCH_H
