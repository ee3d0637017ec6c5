//===- Calls.h - The functions of the emulated driver -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the exported functions of the emulated libcuda, with the types of
// the runtime's CudaApi.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_CALLS_H
#define HEDDLE_EMULATOR_CUDA_CALLS_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

// The exported functions, declared under the driver's names.
namespace heddle::rt::cuda {
extern "C" {
#define HEDDLE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  __attribute__((visibility("default"))) Result SYMBOL PARAMETERS;
HEDDLE_CUDA_CALLS(HEDDLE_DECLARE)
HEDDLE_CUDA_MORE_CALLS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
}
} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CALLS_H
