//===- Private.h - What the emulated libraries say to each other *- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An emulated library gives work to streams of the emulated driver by these
// functions, which the driver shows beside its own. Each library brings a C++
// library of its own: what passes between them is plain C.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_PRIVATE_H
#define HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_PRIVATE_H

#include "runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::cuda {

/// Bytes of the GPU's memory; their place is filled in by the driver.
struct WorkRange {
  DevicePointer address;
  size_t bytes; ///< 0: nothing.
  char *place;
};

/// Work of a stream that waits for other processes. The functions must not
/// throw, and are called again for each launch of a graph that holds it.
struct ExchangeWork {
  const char *name; ///< As "ncclAllReduce".
  WorkRange *reads, *writes;
  size_t numReads, numWrites;
  void *data;
  void (*begin)(void *data);             ///< All before it is done.
  int (*isReady)(void *data);            ///< Whether `finish` may be called.
  void (*finish)(void *data);            ///< Leaves the results.
  void (*forget)(void *data);            ///< The driver needs it no more.
  void (*count)(void *, int64_t *bytes); ///< What one run of it sends.
};

extern "C" {
/// Gives a stream such work; InvalidValue where a range is not of one
/// allocation on the GPU. `forget` is called in any case.
__attribute__((visibility("default"))) Result
heddleEmulatedExchange(StreamHandle stream, const ExchangeWork *work);
/// Counts a call, as those of the driver are.
__attribute__((visibility("default"))) void
heddleEmulatedCount(const char *call);
}

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_EMULATED_CUDA_PRIVATE_H
