//===- CpuDevice.h - Kernels on the cores of this machine -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

namespace heddle::rt {

/// Runs every launch on a pool of threads.
class CpuDevice : public Device {
public:
  explicit CpuDevice(int64_t threads) : pool(threads) {}
  int64_t threads() const override { return pool.threads(); }
  void launch(const KernelLaunch &launch, const Scratch &scratch) override;

  ThreadPool &threadPool() { return pool; }

private:
  ThreadPool pool;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H
