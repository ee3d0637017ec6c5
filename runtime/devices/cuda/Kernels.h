//===- Kernels.h - The loaded kernels of a plan -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads the kernels of a binary into a GPU: PTX or cubins, cuBLASLt calls, and
// kernels that run on the host.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_KERNELS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_KERNELS_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cuda/Driver.h"
#include "heddle/runtime/devices/cuda/ProductCalls.h"

#include <map>
#include <optional>

namespace heddle::rt::cuda {

/// A kernel of this device. KernelHandle points to it.
struct LoadedKernel {
  struct Launch {
    Function function = nullptr;
    /// The configuration for cuLaunchKernelEx. The stream and the list of
    /// attributes are set at each launch.
    LaunchConfig config = {};
    std::optional<LaunchAttribute> cluster;
    /// Whether the function waits for the kernels before it
    /// (griddepcontrol.wait), so that it may begin before they have ended.
    bool mayBeginEarly = false;
  };
  std::string name;
  bool hasScratch = false;
  std::unique_ptr<ProductCalls> product; ///< If set, cuBLASLt computes the
                                         ///< kernel.
  std::vector<Launch> launches;
  KernelHandle onHost = nullptr; ///< If set, the host's cores run the kernel.
};

/// Facts about the GPU on which the code will run.
struct GpuModel {
  std::string name;
  int major = 0, minor = 0;
};

/// The kernels of a plan, loaded as modules of the current context.
class LoadedKernels : public KernelSet {
public:
  /// Loads the kernels. Throws H0283 if the code is for newer GPUs, H0281 if
  /// the driver does not know its PTX version, and H0384 if the image is
  /// invalid. `gemm` is auto, library or generated; if it is library and
  /// cuBLASLt is missing, throws H0450. `cores` is the device that loads the
  /// kernels which run on the host; null if there are none.
  LoadedKernels(const Driver &driver, const GpuModel &gpu,
                std::string_view image,
                const std::vector<plan::Kernel> &kernels,
                const std::string &gemm, Device *cores);
  LoadedKernels(const LoadedKernels &) = delete;
  LoadedKernels &operator=(const LoadedKernels &) = delete;
  ~LoadedKernels() override;

  KernelHandle find(const std::string &name) const override;
  std::string products() const override;

private:
  /// Loads a module from its cubin if the driver accepts it. Otherwise, or if
  /// there is no cubin, loads it from its PTX.
  Module load(const GpuModel &gpu, const std::string &text,
              const std::string &cubin);
  void add(const plan::Kernel &kernel);
  void openLibrary(const std::string &gemm, const GpuModel &gpu,
                   const std::vector<plan::Kernel> &kernels);

  const Driver &driver;
  std::unique_ptr<ProductLibrary> library; ///< Null if no kernel uses it.
  std::unique_ptr<Algorithms> algorithms;  ///< Set if there is a library.
  int64_t numProducts = 0;                 ///< Products that the library may
                                           ///< compute.
  std::vector<Module> modules;
  /// For each module, whether its functions may begin early.
  std::vector<bool> beginEarly;
  std::unique_ptr<KernelSet> ofHost; ///< Null if no kernel runs on the host.
  std::map<std::string, LoadedKernel> kernels;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_KERNELS_H
