//===- Verify.cpp - What the fuse phase promises --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Fuse/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEVERIFY
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : heddle::impl::FuseVerifyBase<Verify> {
  void runOnOperation() override {
    WalkResult walk =
        getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
          if (isa<planir::KernelOp>(op))
            return WalkResult::skip();
          if (!isa<nn::CostOpInterface>(op))
            return WalkResult::advance();
          op->emitError("H0907: is in no kernel");
          return WalkResult::interrupt();
        });
    if (walk.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
