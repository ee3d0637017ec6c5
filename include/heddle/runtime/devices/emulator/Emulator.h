//===- Emulator.h - GPU kernels without a GPU -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a grid of thread blocks on one CPU core. Each GPU thread is a fiber;
// barriers, shuffles and tensor-core operations are places where the fibers of
// a block or of a warp meet. Slow and exact: what a GPU would leave undefined
// (a barrier that not every thread reaches, a race in workgroup memory, a
// misaligned vector) is reported instead of computed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATOR_EMULATOR_H
#define HEDDLE_RUNTIME_DEVICES_EMULATOR_EMULATOR_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt::emulator {

/// Lanes of a warp.
constexpr int64_t warpSize = 32;

/// Sizes or coordinates along x, y and z.
struct Dim3 {
  int64_t x = 1, y = 1, z = 1;

  int64_t count() const { return x * y * z; }
};

/// A kernel lowered to x86-64: buffers by address, integer scalars by value.
using KernelFn = void (*)(void *const *refs, const int64_t *scalars);

/// One launch.
struct Launch {
  KernelFn kernel = nullptr;
  Dim3 grid, block;
  int64_t workgroupBytes = 0;     ///< Memory shared by the threads of a block.
  int64_t stackBytes = 64 * 1024; ///< Of each thread.
  std::vector<std::string> sites; ///< What stands at site i, for messages.
};

/// Runs every block of the launch, one after another. Returns what went wrong
/// first, or an empty string.
std::string run(const Launch &launch, void *const *refs,
                const int64_t *scalars);

/// A function that emulated kernels call.
struct SupportFunction {
  const char *name;
  void *address;
};

/// Every support function, for the loader of emulated kernels.
const std::vector<SupportFunction> &supportFunctions();

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_EMULATOR_H
