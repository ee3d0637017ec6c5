//===- KernelRunner.h - Calls compiled kernels on host memory ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls compiled kernels, so that the interpreter can execute modules from the
// `kernels` phase on.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_KERNELRUNNER_H
#define HEDDLE_LIB_EVAL_KERNELRUNNER_H

#include "dialects/Plan/PlanDialect.h"
#include <cstdlib>
#include <memory>

namespace heddle::eval {

/// A buffer in the host's memory, filled with zeros and aligned as kernels
/// require.
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

/// The compiled kernels (`plan.object`s) of a module, loaded into this process.
class KernelRunner {
public:
  /// Loads the objects of a model or plan. CPU objects are called with
  /// `threads` threads; PTX runs in the emulator. Reports an error and returns
  /// null on failure.
  static std::unique_ptr<KernelRunner> create(mlir::Operation *symbolTable,
                                              int64_t threads);
  virtual ~KernelRunner() = default;

  /// Calls a kernel. `scratch` is its scratch memory, which has `stride` bytes
  /// for each of the `scratchUsers` threads.
  virtual mlir::LogicalResult launch(planir::KernelOp kernel,
                                     llvm::ArrayRef<void *> refs,
                                     llvm::ArrayRef<int64_t> scalars,
                                     char *scratch, int64_t stride) = 0;
  /// Calls a kernel with scratch memory that is allocated for this call.
  mlir::LogicalResult launch(planir::KernelOp kernel,
                             llvm::ArrayRef<void *> refs,
                             llvm::ArrayRef<int64_t> scalars);
  int64_t scratchUsers() const { return users; }

protected:
  explicit KernelRunner(int64_t users) : users(users) {}

private:
  int64_t users;
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_KERNELRUNNER_H
