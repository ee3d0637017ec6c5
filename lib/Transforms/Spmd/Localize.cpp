//===- Localize.cpp - From the shapes of the whole to those of a rank -----===//
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
#define GEN_PASS_DEF_SPMDLOCALIZE
#define GEN_PASS_DEF_SPMDVERIFY
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

bool isWhole(dist::TensorShardingAttr sharding) {
  return sharding.getUnreduced().empty() &&
         llvm::all_of(sharding.getDims().getAsRange<ArrayAttr>(),
                      [](ArrayAttr axes) { return axes.empty(); });
}

constexpr StringLiteral shardingAttributes[] = {"shardings", "arg_shardings",
                                                "result_shardings"};

struct Localize : heddle::impl::SpmdLocalizeBase<Localize> {
  void runOnOperation() override {
    WalkResult walk = getOperation().walk([&](Operation *op) {
      return failed(localize(op)) ? WalkResult::interrupt()
                                  : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }

private:
  LogicalResult localize(Operation *op) {
    if (isa<dist::ReshardOp>(op))
      return op->emitError("H0202: a value changes its sharding between ranks: "
                           "this version compiles for one rank only");
    for (StringRef name : shardingAttributes) {
      auto shardings = op->getAttrOfType<ArrayAttr>(name);
      if (!shardings)
        continue;
      for (Attribute attribute : shardings)
        if (auto sharding = dyn_cast<dist::TensorShardingAttr>(attribute);
            sharding && !isWhole(sharding))
          return op->emitError("H0202: a value is split over ranks (")
                 << sharding << "): this version compiles for one rank only";
      op->removeAttr(name);
    }
    return success();
  }
};

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
