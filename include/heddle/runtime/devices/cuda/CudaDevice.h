//===- CudaDevice.h - The device that is an NVIDIA GPU ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rt::Device for binaries with GPU kernels. It loads the driver, cuBLASLt
// and NCCL at run time, so that nothing of CUDA is linked.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H

#include "heddle/runtime/core/OffloadMemory.h"

namespace heddle::rt {

/// The lowest CUDA version that a driver must support, in the driver's
/// notation: 12.0.
inline constexpr int lowestCudaDriver = 12000;

struct CudaOptions {
  /// The index of the rank among the ranks on its machine. The rank uses the
  /// GPU with this index, or the only visible GPU.
  int64_t localRank = 0;
  /// Waits after each launch, so that an error message names the kernel that
  /// failed.
  bool sync = false;
  /// Captures work as CUDA graphs. One call then launches all work of a graph.
  /// Ignored with `sync`.
  bool graphs = true;
  /// Which code computes matrix products: `auto` (cuBLASLt if it is found),
  /// `library` (cuBLASLt) or `generated` (Heddle's kernels).
  std::string gemm = "auto";
  /// Options of offload files.
  OffloadOptions swap = {};
  /// Number of host threads for kernels that a plan runs on the host.
  int64_t threads = 1;
};

/// Facts about a GPU that can be found out without a context.
struct GpuHere {
  std::string name;
  int capability = 0; ///< Compute capability times ten: 90 runs sm_90.
  std::string cuda;   ///< The CUDA version that its driver supports, as "13.0".
  std::string driver; ///< The path of the driver's library.
};

/// Returns the GPU for the rank with the index `localRank` on this machine.
/// Throws H0280 to H0282 if there is none.
GpuHere requireGpu(int64_t localRank);

/// Like `requireGpu`, but returns nothing if there is no such GPU.
std::optional<GpuHere> findGpu(int64_t localRank);

/// Creates the device of a GPU. It finds and loads the driver's library, and
/// needs no other part of CUDA. Memory of the kind Device is on the GPU; the
/// host cannot access it, and it is aligned to 256 bytes. Host memory is
/// pageable. Pinned memory is allocated by the driver. Memory of the kind File
/// is in offload files; host threads copy it through pinned memory. Kernels
/// that run on the host use host threads of their own, for which the streams
/// wait.
///
/// Throws H0280 without a driver, H0281 if the driver is too old, and H0282
/// without a GPU for this rank. `load` throws H0283 if the code is for newer
/// GPUs, H0384 if it is no valid image, and H0450 if a required library is
/// missing. Submitted work throws H0434 to H0436, H0451, and the errors of
/// OffloadFile.
std::unique_ptr<Device> makeCudaDevice(const CudaOptions &options = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CUDADEVICE_H
