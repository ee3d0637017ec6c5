//===- Driver.h - The CUDA driver, found at start ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_DRIVER_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_DRIVER_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

#include <string>

namespace heddle::rt::cuda {

/// The functions of libcuda.so.1.
struct Driver {
#define HEDDLE_MEMBER(NAME, SYMBOL, PARAMETERS)                                \
  Result(*NAME) PARAMETERS = nullptr;
  HEDDLE_CUDA_CALLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER

  /// The one of this process, ready to be called. Throws H0280 when there is
  /// none, H0281 when it is too old, H0282 when it sees no GPU.
  static const Driver &get();

  /// The error as "CUDA_ERROR_NO_DEVICE (100, no CUDA-capable device is
  /// detected)".
  std::string describe(Result error) const;
  /// The CUDA that it is for, as "13.0".
  std::string version() const;
  /// The file that it was loaded from.
  std::string path() const;
};

/// The file of the library that a function is in, or "?".
std::string pathOfLibrary(const void *function);

/// Throws what a failed call means while something runs: H0434 for a fault in
/// a kernel, H0435 for a GPU that is lost, else H0436. `doing` is as "a copy".
void check(Result result, const std::string &doing);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_DRIVER_H
