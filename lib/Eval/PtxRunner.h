//===- PtxRunner.h - Runs GPU kernels in the emulator -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PTXRUNNER_H
#define HEDDLE_LIB_EVAL_PTXRUNNER_H

#include "KernelRunner.h"
#include "heddle/Eval/PtxKernel.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::eval {

/// Runs the PTX of a module's kernels in the emulator.
class PtxRunner : public KernelRunner {
public:
  /// Reports an error and returns null if the emulator refuses a kernel's PTX.
  static std::unique_ptr<PtxRunner> create(mlir::Operation *symbolTable);

  mlir::LogicalResult launch(planir::KernelOp kernel,
                             llvm::ArrayRef<void *> refs,
                             llvm::ArrayRef<int64_t> scalars, char *scratch,
                             int64_t stride) override;

private:
  /// On a GPU the running launch gets all scratch memory. KernelRunner
  /// therefore allocates scratch memory once, and not for each thread.
  PtxRunner() : KernelRunner(/*users=*/1) {}

  /// The kernels, by the name of the plan.kernel.
  llvm::StringMap<PtxKernel> kernels;
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PTXRUNNER_H
