//===- CudaDevice.h - Kernels on an NVIDIA GPU ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H

#include "heddle/runtime/core/OffloadMemory.h"

namespace heddle::rt {

/// The lowest CUDA that a driver must be for, as the driver says it: 12.0.
inline constexpr int lowestCudaDriver = 12000;

struct CudaOptions {
  /// Which of the machine's ranks this is: it takes the GPU of that number, or
  /// the only one.
  int64_t localRank = 0;
  /// Waits for each launch, so that a fault names its kernel.
  bool sync = false;
  /// Captures work into graphs, which one call launches; not with `sync`.
  bool graphs = true;
  /// Matrix products by cuBLASLt: auto (where it is found), library or
  /// generated (none).
  std::string gemm = "auto";
  /// Of memory that is File.
  OffloadOptions swap = {};
  /// Of the host, that run the kernels which a plan leaves to it.
  int64_t threads = 1;
};

/// What is known of a GPU without opening it.
struct GpuHere {
  std::string name;
  int capability = 0; ///< 90 for what runs sm_90.
  std::string cuda;   ///< What its driver is for, as "13.0".
  std::string driver; ///< The path of the driver's library.
};

/// The GPU that the machine's rank of that number would have. Throws H0280 to
/// H0282 where there is none.
GpuHere requireGpu(int64_t localRank);

/// The same, or none; never throws.
std::optional<GpuHere> findGpu(int64_t localRank);

/// A GPU, reached through the driver alone. This call looks for it: nothing of
/// CUDA is linked. Memory that is Device lies on the GPU, out of the host's
/// sight and at multiples of 256; what is Host is the host's, and what is
/// Pinned the driver's. What is File is copied from and to swap files through
/// pinned memory, on threads of the host. Kernels of the host run on threads of
/// their own, which the stream waits for.
///
/// Throws H0280 without a driver, H0281 when that is too old, H0282 without a
/// GPU for this rank. `load` throws H0283 when the code is for newer GPUs, and
/// H0384 when it is none, H0450 when a library is asked for that is not there.
/// Work throws H0434 to H0436, and H0451, and what OffloadFile throws.
std::unique_ptr<Device> makeCudaDevice(const CudaOptions &options = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H
