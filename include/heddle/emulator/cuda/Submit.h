//===- Submit.h - Commands of other emulated libraries ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulated NCCL and cuBLASLt submit their work to a stream of the emulated
// driver with these functions, which the driver exports next to those of the
// real one. Each library links its own C++ library statically, so the interface
// is plain C.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_SUBMIT_H
#define HEDDLE_EMULATOR_CUDA_SUBMIT_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::cuda {
/// Bytes of GPU memory that a command reads or writes.
struct EmulatedAccess {
  DevicePointer address;
  size_t bytes; ///< 0: no bytes.
  bool writes;
  char *data; ///< Host address of the bytes; set by the driver.
};

/// A command for a stream, described by callbacks, which must not throw. If a
/// graph captures the command, the callbacks are called for each launch of the
/// graph.
struct EmulatedWork {
  const char *name; ///< As "ncclAllReduce of 12 bytes".
  EmulatedAccess *accesses;
  size_t numAccesses;
  void *data;
  void (*run)(void *data);  ///< Called when the stream reaches the command.
  void (*drop)(void *data); ///< Called once, after the last call of `run`.
  /// Callbacks for commands that wait for other processes; null for other
  /// commands. `begin` is called once, when all commands before this one are
  /// done. Then `isReady` is called until it returns true; only then may `run`
  /// be called. `sentBytes` is the number of bytes that one `run` sends.
  void (*begin)(void *data);
  int (*isReady)(void *data);
  int64_t (*sentBytes)(void *data);
};

extern "C" {
/// Submits a command to a stream, or adds it to the capture that is active on
/// the stream. Returns InvalidValue if an access is not inside one allocation
/// of the GPU. Also after an error, `work->drop` is called to free the
/// command's data.
__attribute__((visibility("default"))) Result
heddleEmulateSubmit(StreamHandle stream, const EmulatedWork *work);
/// The number of the current context's GPU; -1 without a context.
__attribute__((visibility("default"))) int heddleEmulateDevice();
/// Whether a capture is active on the stream.
__attribute__((visibility("default"))) int
heddleEmulateIsCapturing(StreamHandle stream);
/// Counts a call for HEDDLE_EMULATE_COUNTS, as the driver's calls are counted.
__attribute__((visibility("default"))) void
heddleEmulateCount(const char *call);
}
} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_SUBMIT_H
