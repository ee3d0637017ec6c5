//===- Verify.cpp - What the spmd phase promises --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Spmd/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDVERIFY
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

constexpr StringLiteral shardingAttributes[] = {"shardings", "arg_shardings",
                                                "result_shardings"};

struct Verify : heddle::impl::SpmdVerifyBase<Verify> {
  void runOnOperation() override {
    WalkResult walk = getOperation().walk([&](Operation *op) {
      bool left = isa<dist::ReshardOp>(op);
      for (StringRef name : shardingAttributes)
        left |= op->hasAttr(name);
      if (!left)
        return WalkResult::advance();
      op->emitError("H0906: a sharding is left");
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
