//===- Packing.h - Packs buffers by their lifetimes -------------*- C++ -*-===//
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

/// The alignment of every buffer, in bytes: a CPU's cache line, or the
/// alignment of memory that a GPU's driver allocates.
inline int64_t alignmentFor(const dist::Strategy &strategy) {
  return factsOf(strategy.target).bufferAlignment;
}
/// The alignment of a kernel's operands, in bytes: the width of its widest load
/// or store.
inline int64_t operandAlignmentFor(const dist::Strategy &strategy) {
  return factsOf(strategy.target).operandAlignment;
}
/// The size of a page of mmap, in bytes.
inline constexpr int64_t pageBytes = 4096;

inline int64_t alignTo(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Bytes of a buffer or of another region of memory, and the commands during
/// which they are live: from command `first` to command `last`, both included.
struct Interval {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = 0; ///< The offset that `pack` assigns.
  /// The offset must be a multiple of this, in addition to the alignment that
  /// `pack` gets for all intervals.
  int64_t alignment = 1;
  /// The last command during which asynchronous work of the program's previous
  /// run may still use the bytes; -1 if no such work uses them.
  int64_t settled = -1;
  /// Whether the first command that uses the bytes has waited for all work that
  /// the program's previous run left unfinished.
  bool followsCarried = false;
};

/// Assigns an offset to every interval, so that intervals that are live at the
/// same time do not overlap. Returns the total size in bytes. An offset is a
/// multiple of `alignment` and of the interval's own alignment, one of which
/// must be a multiple of the other. The algorithm is greedy by size: the
/// largest interval first, each at its lowest free offset (Pisarchyk and Lee,
/// arXiv 2001.03288, section 5).
int64_t pack(llvm::MutableArrayRef<Interval> intervals, int64_t alignment);

/// Returns the largest number of bytes that are live at the same command. No
/// assignment of offsets can need less memory.
int64_t lowerBound(llvm::ArrayRef<Interval> intervals, int64_t alignment);

} // namespace heddle::memory

#endif // HEDDLE_TRANSFORMS_MEMORY_PACKING_H
