//===- Kernels.h - Kernels that a GPU has loaded ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// What a KernelHandle of this device points to.
struct LoadedKernel {
  struct Launch {
    Function function = nullptr;
    /// But for the stream, and the attributes that are below.
    LaunchConfig config = {};
    std::optional<LaunchAttribute> cluster;
  };
  std::string name;
  bool hasScratch = false;
  std::unique_ptr<ProductCalls> product; ///< If there, it is what runs.
  std::vector<Launch> launches;
  KernelHandle onHost = nullptr; ///< If there, the host's cores run it.
};

/// The GPU that the code must be for.
struct GpuModel {
  std::string name;
  int major = 0, minor = 0;
};

/// The kernels of a plan as modules of the current context.
class LoadedKernels : public KernelSet {
public:
  /// Throws H0283 when the code is for newer GPUs, H0281 when the driver does
  /// not know its version of PTX, H0384 when it is none. `gemm` is auto,
  /// library or generated: with library throws H0450 where there is none.
  /// `cores` loads the kernels that run on the host; null where there are none.
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
  /// Of the text, or of its cubin where there is one and the driver takes it.
  Module load(const GpuModel &gpu, const std::string &text,
              const std::string &cubin);
  void add(const plan::Kernel &kernel);
  void openLibrary(const std::string &gemm, const GpuModel &gpu,
                   const std::vector<plan::Kernel> &kernels);

  const Driver &driver;
  std::unique_ptr<ProductLibrary> library; ///< Null: there is no need of it.
  std::unique_ptr<Algorithms> algorithms;  ///< Where there is a library.
  int64_t numProducts = 0;                 ///< That it may compute.
  std::vector<Module> modules;
  std::unique_ptr<KernelSet> ofHost; ///< Null: no kernel runs there.
  std::map<std::string, LoadedKernel> kernels;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_KERNELS_H
