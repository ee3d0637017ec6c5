//===- ParallelRegion.h - Work of all threads together ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a list of kernels and copies on all threads of a pool. The threads are
// started once for the whole list.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_PARALLELREGION_H
#define HEDDLE_RUNTIME_DEVICES_CPU_PARALLELREGION_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/core/KernelFunction.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/io/RowChoice.h"

#include <variant>

namespace heddle::rt {

/// A kernel to run, with the operands of its launch.
struct KernelWork {
  KernelFunction function;
  bool isSmall; ///< One thread finishes before others could be woken.
  void *const *refs;
  const int64_t *scalars;
  Scratch scratch;
};

/// A range of bytes to copy from `source`. If `source` is null, the range is
/// filled with `value` instead.
struct MoveWork {
  char *target;
  const char *source;
  unsigned char value;
  int64_t bytes;
};

/// Rows of a table to copy. One thread copies all rows, since they are few
/// bytes.
struct RowsWork {
  char *target;
  const char *source;
  io::RowChoice rows;
};

/// One item of a region's work.
using CpuWork = std::variant<KernelWork, MoveWork, RowsWork>;

/// Performs the `count` items at `works` in order, each by all threads
/// together. The threads start once, and meet at a barrier between two items.
/// The caller performs small items alone. Allocates no memory.
void runRegion(ThreadPool &pool, const CpuWork *works, size_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_PARALLELREGION_H
