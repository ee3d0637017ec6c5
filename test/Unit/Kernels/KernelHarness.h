//===- KernelHarness.h - Compiles, runs and checks one plan.kernel *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
#define HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H

#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "heddle/Eval/Tensor.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

/// A context with kernels, their compiler and their reference evaluation.
std::unique_ptr<mlir::MLIRContext> createKernelContext();

/// `text` with every $NAME replaced.
std::string instantiate(
    std::string text,
    const std::vector<std::pair<std::string, std::string>> &replacements);

/// One kernel, compiled and loaded into this process.
class LoadedKernel {
public:
  /// Exits with a message when the kernel cannot be compiled.
  LoadedKernel(planir::KernelOp kernel, const cpu::CpuTarget &target);
  ~LoadedKernel();

  /// Runs the parts of `threads` threads one after the other.
  void run(const std::vector<void *> &refs, const std::vector<int64_t> &scalars,
           int64_t threads) const;
  /// Runs them at the same time.
  void runParallel(const std::vector<void *> &refs,
                   const std::vector<int64_t> &scalars, int64_t threads) const;
  double compileSeconds() const { return seconds; }
  const cpu::CompiledKernel &compiled() const { return kernel; }

private:
  struct Loaded;
  using Entry = void (*)(void *const *, const int64_t *, int64_t, int64_t,
                         void *);
  std::unique_ptr<Loaded> loaded;
  Entry entry = nullptr;
  cpu::CompiledKernel kernel;
  double seconds = 0;
};

/// Compiles the kernel in `text` for AVX-512 and for AVX2, runs each with 1, 2
/// and 3 threads on random tensors, and compares every result with the
/// reference evaluation in double precision. `tolerance` is relative to the
/// size of the results. Integers are drawn from [least, limit). Arguments with
/// the attribute test.positive are positive.
struct KernelCheck {
  std::string text;
  double tolerance = 2e-6;
  int64_t least = 0, limit = 4;
  std::vector<int64_t> scalars = {};
  void run() const;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
