//===- Launcher.cpp - Submits kernels to the streams of a GPU -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Submits a launch to the GPU, to cuBLASLt or to the host.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/Launcher.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "runtime/devices/cuda/ProfilerRange.h"

#include <algorithm>
#include <array>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

std::unique_ptr<KernelSet>
Launcher::load(const GpuModel &gpu, std::string_view image,
               const std::vector<plan::Kernel> &kernels) {
  bool anyOnHost =
      std::any_of(kernels.begin(), kernels.end(),
                  [](const plan::Kernel &kernel) { return kernel.onHost; });
  if (!cores && anyOnHost) {
    pool = std::make_unique<ThreadPool>(hostThreads);
    cores = std::make_unique<CpuDevice>(*pool);
  }
  return std::make_unique<LoadedKernels>(driver, gpu, image, kernels, gemm,
                                         cores.get());
}

/// Names a kernel in error messages, for example "'linear_7f24' for h.0.mlp".
static std::string describe(const LoadedKernel &kernel,
                            const KernelLaunch &launch) {
  bool hasPath = launch.path && !launch.path->empty();
  return "'" + kernel.name + "'" + (hasPath ? " for " + *launch.path : "");
}

bool Launcher::submit(StreamHandle stream, const KernelLaunch &launch,
                      const Scratch &scratch, bool repeats,
                      bool followsKernel) {
  const auto &kernel = *reinterpret_cast<const LoadedKernel *>(
      reinterpret_cast<uintptr_t>(launch.kernel));
  // A captured launch gets no profiler range, since it does not run now but
  // with the graph.
  const std::string &name =
      launch.path && !launch.path->empty() ? *launch.path : kernel.name;
  ProfilerRange range(repeats ? nullptr : name.c_str());
  if (kernel.onHost)
    submitOnHost(stream, kernel, launch, repeats);
  else if (kernel.product)
    submitProduct(stream, kernel, launch, scratch);
  else
    submitOnGpu(stream, kernel, launch, scratch, followsKernel);
  return !kernel.onHost && !kernel.product;
}

void Launcher::submitOnGpu(StreamHandle stream, const LoadedKernel &kernel,
                           const KernelLaunch &launch, const Scratch &scratch,
                           bool followsKernel) {
  // The list of arguments can be reused for the next launch, since the driver
  // has copied it when the call returns.
  arguments.clear();
  auto take = [&](const void *value) {
    arguments.push_back(const_cast<void *>(value));
  };
  for (int64_t i = 0; i < launch.numRefs; ++i)
    take(&launch.refs[i]);
  if (kernel.hasScratch)
    take(&scratch.base);
  for (int64_t i = 0; i < launch.numScalars; ++i)
    take(&launch.scalars[i]);
  for (const LoadedKernel::Launch &one : kernel.launches) {
    LaunchConfig config = one.config;
    config.stream = stream;
    std::array<LaunchAttribute, 2> attributes;
    config.attributes = attributes.data();
    if (one.cluster)
      attributes[config.numAttributes++] = *one.cluster;
    if (followsKernel && one.mayBeginEarly) {
      LaunchAttribute &early = attributes[config.numAttributes++];
      early.id = LaunchAttributeProgrammatic;
      early.value.programmatic = 1;
    }
    Result result =
        driver.launch(&config, one.function, arguments.data(), nullptr);
    checkLaunch(result, stream, kernel, launch);
  }
}

/// Runs a kernel on the host's threads when the stream reaches it. The stream
/// waits for these threads; the caller does not.
void Launcher::submitOnHost(StreamHandle stream, const LoadedKernel &kernel,
                            const KernelLaunch &launch, bool repeats) {
  KernelLaunch work = launch;
  work.kernel = kernel.onHost;
  updates.add(
      stream, [this, work] { cores->submit(Stream::Host, work, Scratch()); },
      repeats);
  checkLaunch(Success, stream, kernel, launch);
}

void Launcher::submitProduct(StreamHandle stream, const LoadedKernel &kernel,
                             const KernelLaunch &launch,
                             const Scratch &scratch) {
  cublaslt::Status status =
      kernel.product->submit(stream, launch.refs, scratch.base);
  if (status != cublaslt::Success)
    fail("H0451",
         "cuBLASLt refused the product " + describe(kernel, launch) +
             ": cublasLtMatmul returns " + std::to_string(status),
         "run with --gemm generated, which takes Heddle's products, and report "
         "this as a bug");
  checkLaunch(Success, stream, kernel, launch);
}

void Launcher::checkLaunch(Result result, StreamHandle stream,
                           const LoadedKernel &kernel,
                           const KernelLaunch &launch) {
  if (result == Success && sync)
    result = driver.finishStream(stream);
  if (result != Success)
    cuda::check(result, "the launch of " + describe(kernel, launch));
}
