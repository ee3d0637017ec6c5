//===- Launcher.h - Submits kernels to the streams of a GPU -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches kernels on the GPU, by cuBLASLt, or on the host.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H

#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "runtime/devices/cuda/HostTasks.h"
#include "runtime/devices/cuda/Kernels.h"

namespace heddle::rt::cuda {

/// Loads the kernels of plans, and submits each launch to the GPU, to cuBLASLt,
/// or to the host's cores.
class Launcher {
public:
  Launcher(const Driver &driver, const CudaOptions &options)
      : driver(driver), sync(options.sync), gemm(options.gemm),
        hostThreads(options.threads), updates(driver) {}

  /// Implements Device::load in the current context. Throws the errors of
  /// LoadedKernels.
  std::unique_ptr<KernelSet> load(const GpuModel &gpu, std::string_view image,
                                  const std::vector<plan::Kernel> &kernels);
  /// Implements Device::submit. With `repeats` the launch is captured in a
  /// graph. With `followsKernel` the last command of the stream is another
  /// kernel, before whose end this one may begin. Returns whether the launch
  /// was a kernel of Heddle on the GPU. Throws H0434 to H0436, and H0451 if
  /// cuBLASLt fails. A fault in the kernel itself is only known when the kernel
  /// has run, so that it is thrown here only with CudaOptions::sync.
  bool submit(StreamHandle stream, const KernelLaunch &launch,
              const Scratch &scratch, bool repeats, bool followsKernel);
  /// Throws the error of a kernel that failed on the host, if one did.
  void check() { updates.check(); }

private:
  void submitOnHost(StreamHandle stream, const LoadedKernel &kernel,
                    const KernelLaunch &launch, bool repeats);
  void submitProduct(StreamHandle stream, const LoadedKernel &kernel,
                     const KernelLaunch &launch, const Scratch &scratch);
  void submitOnGpu(StreamHandle stream, const LoadedKernel &kernel,
                   const KernelLaunch &launch, const Scratch &scratch,
                   bool followsKernel);
  /// Checks a launch, and with `sync` waits until the stream has finished it.
  void checkLaunch(Result result, StreamHandle stream,
                   const LoadedKernel &kernel, const KernelLaunch &launch);

  const Driver &driver;
  bool sync;
  std::string gemm;
  int64_t hostThreads; ///< Threads of `pool`.
  /// The threads, and the device, for kernels that run on the host. Null if
  /// there are no such kernels.
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<CpuDevice> cores;
  HostTasks updates; ///< Runs these kernels independently of copies from and to
                     ///< files.
  std::vector<void *> arguments; ///< Arguments of the launch that is being
                                 ///< submitted.
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_LAUNCHER_H
