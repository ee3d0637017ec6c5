//===- Driver.h - The CUDA driver, loaded at run time -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads libcuda.so.1 and calls it, so that a binary starts without CUDA
// installed.
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

  /// The driver of this process, initialized. Throws H0280 if there is none,
  /// H0281 if it is too old, and H0282 if it finds no GPU.
  static const Driver &get();

  /// Formats an error as text, for example "CUDA_ERROR_NO_DEVICE (100, no
  /// CUDA-capable device is detected)".
  std::string describe(Result error) const;
  /// Returns the CUDA version that the driver supports, for example "13.0".
  std::string version() const;
  /// Returns the path of the file from which the driver was loaded.
  std::string path() const;
};

/// Returns the path of the library file that contains a function, or "?".
std::string pathOfLibrary(const void *function);

/// Throws an error if a call of the driver failed during a run: H0434 for a
/// fault in a kernel, H0435 for a lost GPU, otherwise H0436. `doing` names the
/// action for the message, for example "a copy".
void check(Result result, const std::string &doing);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_DRIVER_H
