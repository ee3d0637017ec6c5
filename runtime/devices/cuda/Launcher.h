//===- Launcher.h - Submits kernels to the streams of a GPU -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H

#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "runtime/devices/cuda/HostTasks.h"
#include "runtime/devices/cuda/Kernels.h"

namespace heddle::rt::cuda {

/// Loads the kernels of plans, and submits each to what runs it: the GPU,
/// cuBLASLt, or the cores of the host.
class Launcher {
public:
  Launcher(const Driver &driver, const CudaOptions &options)
      : driver(driver), sync(options.sync), gemm(options.gemm),
        hostThreads(options.threads), updates(driver) {}

  /// Device::load, on the current context. Throws what LoadedKernels throws.
  std::unique_ptr<KernelSet> load(const GpuModel &gpu, std::string_view image,
                                  const std::vector<plan::Kernel> &kernels);
  /// Device::submit. With `repeats` a graph is captured, which runs the launch
  /// each time. Throws H0434 to H0436, and H0451 when cuBLASLt fails; of faults
  /// in the kernel itself only with CudaOptions::sync.
  void submit(StreamHandle stream, const KernelLaunch &launch,
              const Scratch &scratch, bool repeats);
  /// Throws what failed of all that the host's cores ran so far.
  void check() { updates.check(); }

private:
  void submitOnHost(StreamHandle stream, const LoadedKernel &kernel,
                    const KernelLaunch &launch, bool repeats);
  void submitProduct(StreamHandle stream, const LoadedKernel &kernel,
                     const KernelLaunch &launch, const Scratch &scratch);
  void submitOnGpu(StreamHandle stream, const LoadedKernel &kernel,
                   const KernelLaunch &launch, const Scratch &scratch);
  /// With `sync`, waits for it as well.
  void checkLaunch(Result result, StreamHandle stream,
                   const LoadedKernel &kernel, const KernelLaunch &launch);

  const Driver &driver;
  bool sync;
  std::string gemm;
  int64_t hostThreads; ///< Of `cores`.
  /// What runs the kernels of the host; null where there are none.
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<CpuDevice> cores;
  HostTasks updates; ///< Those kernels, beside copies from and to files.
  std::vector<void *> arguments; ///< Of the launch that is submitted.
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H
