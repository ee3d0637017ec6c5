//===- MemoryRate.h - Measures the bandwidth of a device --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the rate at which the device of a job moves bytes of its memory, for
// `BINARY bench --decode`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MEMORYRATE_H
#define HEDDLE_RUNTIME_APP_MEMORYRATE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/devices/cpu/ReadRate.h"

namespace heddle::rt {

/// On a CPU, measures how fast threads read memory. On a GPU, measures a copy
/// within the GPU's memory, and counts the bytes that it reads and writes.
class MemoryRate {
public:
  explicit MemoryRate(Job &job);

  /// Returns bytes per second.
  double measure();
  /// Says what is measured, for example `a copy`.
  static const char *method(const plan::Plan &plan);

private:
  Job &job;
  std::optional<ReadRate> reading; ///< Only for a CPU.
  std::optional<DeviceMemory> memory;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MEMORYRATE_H
