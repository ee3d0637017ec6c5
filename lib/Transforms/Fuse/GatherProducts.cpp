//===- GatherProducts.cpp - Makes products of the same rows adjacent ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-gather-products`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "heddle/Transforms/Fuse/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEGATHERPRODUCTS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {
struct GatherProducts : heddle::impl::FuseGatherProductsBase<GatherProducts> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<codegen::FusionRules> rules = fuse::rulesOf(model);
    if (failed(rules))
      return signalPassFailure();
    if (!rules->joinsPackedProducts)
      return;
    llvm::SetVector<Block *> blocks;
    model.walk([&](nn::PackedLinearOp product) {
      blocks.insert(product->getBlock());
    });
    for (Block *block : blocks)
      gather(*block);
  }

private:
  /// Moves each matrix product to the place right after the previous product
  /// with the same input. A product is not moved if one of its operands is
  /// computed by or after that previous product.
  void gather(Block &block) {
    DenseMap<Value, Operation *> latest;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto product = dyn_cast<nn::PackedLinearOp>(op);
      if (!product)
        continue;
      Operation *&before = latest[product.getInput()];
      auto isThere = [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return !producer || producer->getBlock() != &block ||
               producer->isBeforeInBlock(before);
      };
      if (before && llvm::all_of(op.getOperands(), isThere)) {
        numGathered += op.getPrevNode() != before;
        op.moveAfter(before);
      }
      before = &op;
    }
  }
};
} // namespace
