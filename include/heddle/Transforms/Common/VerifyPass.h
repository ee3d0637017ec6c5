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

/// Base class of the verifier pass at the end of each phase. The pass changes
/// nothing, and fails if the IR violates the phase's invariants. `Base` is the
/// pass base class that tablegen generates. `PassT` is the pass itself, whose
/// `LogicalResult verify(OpT)` emits the error.
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
