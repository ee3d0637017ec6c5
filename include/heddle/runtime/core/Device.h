//===- Device.h - What runs a plan's kernels --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DEVICE_H
#define HEDDLE_RUNTIME_CORE_DEVICE_H

#include <cstdint>

namespace heddle::rt {

/// A compiled kernel, as Plan.h documents it.
using KernelFunction = void (*)(void *const *refs, const int64_t *scalars,
                                int64_t thread, int64_t threads, void *scratch);

/// One launch with every address resolved.
struct KernelLaunch {
  KernelFunction function = nullptr;
  void *const *refs = nullptr;
  const int64_t *scalars = nullptr;
};

/// The scratch memory of a program's kernels: thread t has `stride` bytes from
/// `base + t * stride`.
struct Scratch {
  char *base = nullptr;
  int64_t stride = 0;
};

/// Runs launches one after the other; one implementation per kind of device.
class Device {
public:
  virtual ~Device() = default;
  /// How many threads a launch runs on.
  virtual int64_t threads() const = 0;
  /// Calls the kernel once on every thread and returns when all are done.
  virtual void launch(const KernelLaunch &launch, const Scratch &scratch) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DEVICE_H
