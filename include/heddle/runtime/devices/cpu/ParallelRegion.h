//===- ParallelRegion.h - What threads do one after another -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// A kernel that is called with the operands of a launch.
struct KernelWork {
  KernelFunction function;
  bool isSmall; ///< One thread does it sooner than others are told to.
  void *const *refs;
  const int64_t *scalars;
  Scratch scratch;
};

/// Bytes that are copied or, without a source, filled.
struct MoveWork {
  char *target;
  const char *source;
  unsigned char value;
  int64_t bytes;
};

/// Rows of a table that are copied, few bytes.
struct RowsWork {
  char *target;
  const char *source;
  io::RowChoice rows;
};

/// One piece of what a region does.
using CpuWork = std::variant<KernelWork, MoveWork, RowsWork>;

/// Does `count` pieces from `works` on in their order, all threads together at
/// each: they are started once, and wait for each other between one piece and
/// the next. Pieces that are small are done by the caller. Allocates nothing.
void runRegion(ThreadPool &pool, const CpuWork *works, size_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_PARALLELREGION_H
