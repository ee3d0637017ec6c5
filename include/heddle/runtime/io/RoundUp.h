//===- RoundUp.h - Multiples of pages and lines -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_ROUNDUP_H
#define HEDDLE_RUNTIME_IO_ROUNDUP_H

#include <cstdint>

namespace heddle::io {

/// Returns the smallest multiple of `multiple` that is at least `value`, which
/// is not negative.
constexpr int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_ROUNDUP_H
