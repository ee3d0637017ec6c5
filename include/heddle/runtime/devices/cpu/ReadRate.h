//===- ReadRate.h - How fast this machine reads memory ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

namespace heddle::rt {

/// Measures how fast the threads of a pool read memory, each its part in 8
/// streams side by side: the limit of what has to read weights.
class ReadRate {
public:
  /// Maps memory to read, many times the size of a cache, and writes it.
  explicit ReadRate(ThreadPool &pool);

  /// Bytes per second of one pass over the memory.
  double measure();

private:
  ThreadPool &pool;
  Arena memory;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H
