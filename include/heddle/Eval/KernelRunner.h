//===- KernelRunner.h - Runs compiled kernels on host memory ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_KERNELRUNNER_H
#define HEDDLE_EVAL_KERNELRUNNER_H

#include "dialects/Plan/PlanDialect.h"
#include <cstdlib>
#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace heddle::eval {

/// Zeroed memory, aligned as kernels want their operands.
class HostBuffer {
public:
  explicit HostBuffer(int64_t bytes);
  char *data() const { return memory.get(); }

private:
  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<char, Free> memory;
};

/// The compiled kernels of a module: its `plan.object`s, loaded as they are.
class KernelRunner {
public:
  /// Loads the objects of a model or plan; null, with an error reported, when
  /// that fails.
  static std::unique_ptr<KernelRunner> create(mlir::Operation *symbolTable,
                                              int64_t threads);
  ~KernelRunner();

  /// Calls the kernel once for each thread, one after the other: threads do not
  /// wait for each other in a kernel, so that the result is that of threads at
  /// once. Scratch memory is the kernel's own.
  mlir::LogicalResult launch(planir::KernelOp kernel,
                             llvm::ArrayRef<void *> refs,
                             llvm::ArrayRef<int64_t> scalars);
  /// The same with scratch memory of `stride` bytes for each thread.
  mlir::LogicalResult launch(planir::KernelOp kernel,
                             llvm::ArrayRef<void *> refs,
                             llvm::ArrayRef<int64_t> scalars, char *scratch,
                             int64_t stride);

private:
  KernelRunner(int64_t threads, std::unique_ptr<llvm::orc::LLJIT> loader);

  int64_t numThreads;
  std::unique_ptr<llvm::orc::LLJIT> loader;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_KERNELRUNNER_H
