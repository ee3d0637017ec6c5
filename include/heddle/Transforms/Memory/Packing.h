//===- Packing.h - Offsets from lifetimes -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_MEMORY_PACKING_H
#define HEDDLE_TRANSFORMS_MEMORY_PACKING_H

#include "dialects/Dist/Strategy.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace heddle::memory {

/// The alignment of every buffer, in bytes: a CPU's cache line, or that of the
/// memory that a GPU's driver allocates.
inline int64_t alignmentFor(const dist::Strategy &strategy) {
  return factsOf(strategy.target).bufferAlignment;
}
/// The alignment of a kernel's operands, in bytes: that of its widest access.
inline int64_t operandAlignmentFor(const dist::Strategy &strategy) {
  return factsOf(strategy.target).operandAlignment;
}
/// What mmap gives.
inline constexpr int64_t pageBytes = 4096;

inline int64_t alignTo(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Bytes that are live from command `first` to command `last`, both included.
struct Interval {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = 0;    ///< The result.
  int64_t alignment = 1; ///< Of the offset, beside that of all.
  /// They are in use up to here, too, as the run before has left them; -1: they
  /// are not.
  int64_t settled = -1;
  /// Who uses them first has waited for all that is left so.
  bool followsCarried = false;
};

/// Gives every interval an offset, a multiple of `alignment` and of its own
/// (one of the two is a multiple of the other), so that no two
/// that are live together overlap; returns the size of the whole. Greedy by
/// size, each at the lowest place that is free (Pisarchyk and Lee, arXiv
/// 2001.03288, section 5).
int64_t pack(llvm::MutableArrayRef<Interval> intervals, int64_t alignment);

/// The most bytes that are live at one command: no packing can be smaller.
int64_t lowerBound(llvm::ArrayRef<Interval> intervals, int64_t alignment);

} // namespace heddle::memory

#endif // HEDDLE_TRANSFORMS_MEMORY_PACKING_H
