//===- CpuDevice.cpp - Kernels on the cores of this machine ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/CpuDevice.h"

using namespace heddle::rt;

namespace {

struct Work {
  const KernelLaunch &launch;
  const Scratch &scratch;
};

void runKernel(const void *context, int64_t thread, int64_t threads) {
  const Work &work = *static_cast<const Work *>(context);
  work.launch.function(work.launch.refs, work.launch.scalars, thread, threads,
                       work.scratch.base + thread * work.scratch.stride);
}

} // namespace

void CpuDevice::launch(const KernelLaunch &launch, const Scratch &scratch) {
  Work work = {launch, scratch};
  pool.run(runKernel, &work);
}
