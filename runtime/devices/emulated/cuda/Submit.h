//===- Submit.h - Work that other emulated libraries do ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How libraries that stand in for others of NVIDIA's reach an emulated GPU: the
// emulated driver has these functions besides those of the real one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_SUBMIT_H
#define HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_SUBMIT_H

#include "runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::cuda {
extern "C" {

/// Bytes of the GPU's memory that a command reads, or writes.
struct EmulatedAccess {
  DevicePointer address;
  size_t bytes;
  bool writes;
  char *place; ///< Where they stand; set by heddleEmulateSubmit.
};

/// Gives a command to a stream, or to the capture that the stream is in. `run`
/// is called with `data` when it is its turn, maybe often; `drop` once, when it
/// will not be called again. InvalidValue when an access is not to one
/// allocation of the GPU; then nothing is called.
__attribute__((visibility("default"))) Result
heddleEmulateSubmit(StreamHandle stream, const char *name,
                    EmulatedAccess *accesses, size_t count, void (*run)(void *),
                    void (*drop)(void *), void *data);
}
} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_SUBMIT_H
