//===- Submit.h - Work that other emulated libraries do ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How libraries that stand in for others of NVIDIA's reach an emulated GPU: the
// emulated driver has these functions besides those of the real one. Each
// library brings a C++ library of its own: what passes between them is plain C.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_SUBMIT_H
#define HEDDLE_EMULATOR_CUDA_SUBMIT_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::cuda {
/// Bytes of the GPU's memory that a command reads, or writes.
struct EmulatedAccess {
  DevicePointer address;
  size_t bytes; ///< 0: nothing.
  bool writes;
  char *place; ///< Where they stand; set by the driver.
};

/// A command for a stream. Its functions must not throw. They are called again
/// for each launch of a graph that holds it.
struct EmulatedWork {
  const char *name; ///< As "ncclAllReduce of 12 bytes".
  EmulatedAccess *accesses;
  size_t numAccesses;
  void *data;
  void (*run)(void *data);  ///< When it is its turn.
  void (*drop)(void *data); ///< Once: it will not be called again.
  /// Of one that waits for other processes, else null: called all before it is
  /// done; whether `run` may be called; the bytes that one run of it sends.
  void (*begin)(void *data);
  int (*isReady)(void *data);
  int64_t (*sentBytes)(void *data);
};

extern "C" {
/// Gives work to a stream, or to the capture that the stream is in.
/// InvalidValue when an access is not to one allocation of the GPU. `drop` is
/// called in any case.
__attribute__((visibility("default"))) Result
heddleEmulateSubmit(StreamHandle stream, const EmulatedWork *work);
/// The number of the GPU that the current context is of; -1 without one.
__attribute__((visibility("default"))) int heddleEmulateDevice();
/// Whether what the stream is given is captured.
__attribute__((visibility("default"))) int
heddleEmulateIsCapturing(StreamHandle stream);
/// Counts a call, as those of the driver are.
__attribute__((visibility("default"))) void
heddleEmulateCount(const char *call);
}
} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_SUBMIT_H
