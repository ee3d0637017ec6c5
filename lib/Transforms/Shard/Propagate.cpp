//===- Propagate.cpp - Plans one closed sharding for every value ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "ShardingPlan.h"
#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDPROPAGATE
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct Propagate : heddle::impl::ShardPropagateBase<Propagate> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (!getAnalysis<shard::ShardingPlan>().isComplete())
      return signalPassFailure();
    if (!printReasons)
      return;
    // The cached ShardingPlan does not say why each value has its sharding,
    // because collecting these reasons takes time. To print the reasons, make a
    // second ShardingPlan.
    shard::Reasons reasons;
    shard::ShardingPlan(getOperation(), &reasons);
    reasons.print(llvm::errs());
  }
};

} // namespace
