//===- ProfilerRange.h - Names in a profiler's timeline ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H

namespace heddle::rt::cuda {

/// A range of this thread's time that a profiler shows under a name, for as
/// long as the object lives: one of NVTX. Nothing where no profiler is
/// attached.
class ProfilerRange {
public:
  /// Null: nothing.
  explicit ProfilerRange(const char *name);
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ~ProfilerRange();

  /// Looks for the profiler whose library the environment names.
  static void attach();

private:
  bool isOpen = false;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_PROFILERRANGE_H
