//===- ProfilerRange.h - Named ranges in a profiler's timeline --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shows kernels and steps in NVIDIA's profilers by NVTX ranges, without linking
// NVTX.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H

namespace heddle::rt::cuda {

/// A named range of this thread's time, which a profiler shows. It begins and
/// ends with the object's life. It does nothing if no profiler is attached.
class ProfilerRange {
public:
  /// Null: no range.
  explicit ProfilerRange(const char *name);
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ~ProfilerRange();

  /// Loads the library of the profiler, which the environment variable
  /// NVTX_INJECTION64_PATH names.
  static void attach();

private:
  bool isOpen = false;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H
