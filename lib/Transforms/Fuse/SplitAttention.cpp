//===- SplitAttention.cpp - Splits the attention of one token -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-split-attention`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Fuse/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSESPLITATTENTION
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {
struct SplitAttention : heddle::impl::FuseSplitAttentionBase<SplitAttention> {
  using Base::Base;

  void runOnOperation() override {
    getOperation()->walk([&](nn::PagedAttentionOp op) {
      bool isOneToken = op.getPositions().getType().getDimSize(1) == 1;
      if (isOneToken && !op.getInParts() && op.getNumParts() > 1)
        split(op);
    });
  }

private:
  void split(nn::PagedAttentionOp op) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto join = builder.create<nn::PagedAttentionJoinOp>(
        op.getLoc(), op.getType(), op.getOutput(), op.getPositions(),
        op.getLengths(), op.getMask(), op.getPartPages() * op.getPageTokens(),
        /*shardings=*/ArrayAttr());
    op.getOutput().replaceAllUsesExcept(join.getOutput(), join);
    op.getOutput().setType(op.getPartsType());
    op.setInParts(true);
    ++numSplit;
  }
};
} // namespace
