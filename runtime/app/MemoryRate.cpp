//===- MemoryRate.cpp - Measures the bandwidth of a device ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryRate.h"

using namespace heddle;
using namespace heddle::rt;

/// The bytes that a copy on a GPU reads: more than its caches hold.
static constexpr int64_t copiedBytes = int64_t(128) << 20;

MemoryRate::MemoryRate(Job &job) : job(job) {
  if (job.plan().device == plan::DeviceKind::Cpu)
    reading.emplace(job.threadPool());
  else
    memory.emplace(job.device(),
                   MemoryRequest{MemoryKind::Device, 2 * copiedBytes,
                                 "the measurement of a copy"});
}

double MemoryRate::measure() {
  if (reading)
    return reading->measure();
  Device &device = job.device();
  Address source = memory->address();
  std::optional<int64_t> nanoseconds = device.measure(Stream::Compute, [&] {
    device.copy(Stream::Compute, source + copiedBytes, source, copiedBytes);
  });
  return double(2 * copiedBytes) / (1e-9 * double(nanoseconds.value_or(0)));
}

const char *MemoryRate::method(const plan::Plan &plan) {
  return plan.device == plan::DeviceKind::Cpu ? "8 streams a thread read"
                                              : "a copy reads and writes";
}
