//===- VerifyPass.h - What verifiers of phases share ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_VERIFYPASS_H
#define HEDDLE_TRANSFORMS_COMMON_VERIFYPASS_H

#include "mlir/Support/LLVM.h"

namespace heddle {

/// The verifier pass at the end of a phase. It changes nothing, and fails if
/// the IR breaks what the phase promises. `Base` is the pass base class that
/// tablegen generates. `PassT` has `LogicalResult verify(OpT)`, which emits the
/// error.
template <template <typename> class Base, typename PassT>
struct VerifyPass : Base<PassT> {
  void runOnOperation() override {
    if (failed(static_cast<PassT *>(this)->verify(this->getOperation())))
      this->signalPassFailure();
    this->markAllAnalysesPreserved();
  }
};

/// Calls `verify` for each operation of type OpT in `root` until one fails.
template <typename OpT>
mlir::LogicalResult
verifyEach(mlir::Operation *root,
           llvm::function_ref<mlir::LogicalResult(OpT)> verify) {
  return mlir::failure(
      root->walk([&](OpT op) { return mlir::WalkResult(verify(op)); })
          .wasInterrupted());
}

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_VERIFYPASS_H
