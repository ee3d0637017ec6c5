//===- PtxRunner.h - Runs kernels for GPUs on host memory -------*- C++ -*-===//
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

/// The PTX of a module's kernels, in the machine that executes it.
class PtxRunner : public KernelRunner {
public:
  /// Null, with an error reported, when a text is none that the machine knows.
  static std::unique_ptr<PtxRunner> create(mlir::Operation *symbolTable);

  mlir::LogicalResult launch(planir::KernelOp kernel,
                             llvm::ArrayRef<void *> refs,
                             llvm::ArrayRef<int64_t> scalars, char *scratch,
                             int64_t stride) override;

private:
  /// A launch has the scratch memory as a whole.
  PtxRunner() : KernelRunner(/*users=*/1) {}

  llvm::StringMap<PtxKernel> kernels; ///< By the name of the plan.kernel.
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PTXRUNNER_H
