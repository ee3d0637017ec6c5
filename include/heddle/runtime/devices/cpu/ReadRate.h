//===- ReadRate.h - Measures this machine's memory bandwidth ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the rate of reading memory, for `BINARY bench`. This rate limits how
// fast tokens are generated, since each token reads all weights.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

namespace heddle::rt {

/// Measures how fast the threads of a pool read memory. Each thread reads a
/// part of the memory, in 8 interleaved streams.
class ReadRate {
public:
  /// Allocates the memory to read and writes to it. It is many times larger
  /// than a cache, so that reads do not hit the cache.
  explicit ReadRate(ThreadPool &pool);

  /// Reads the memory once and returns bytes per second.
  double measure();

private:
  ThreadPool &pool;
  Arena memory;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_READRATE_H
