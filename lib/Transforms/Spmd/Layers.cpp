//===- Layers.cpp - The layers around an operation ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layers.h"
#include "dialects/Pipe/PipeDialect.h"

using namespace mlir;
using namespace heddle;

SmallVector<Block *> heddle::spmd::blocksOf(nn::StepOp step) {
  SmallVector<Block *> blocks = {&step.getBody().front()};
  for (Operation &op : *blocks.front())
    if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
      for (Region &region : op.getRegions())
        blocks.push_back(&region.front());
  return blocks;
}

void heddle::spmd::waitForStores(Block &block,
                                 SmallVector<Operation *> stores) {
  OpBuilder builder(block.getParent());
  for (auto layer : llvm::make_early_inc_range(block.getOps<nn::CallOp>())) {
    auto isBefore = [&](Operation *store) {
      return store->isBeforeInBlock(layer);
    };
    if (llvm::none_of(stores, isBefore))
      continue;
    builder.setInsertionPointAfter(layer);
    builder.create<dist::FlushOp>(layer.getLoc(), 0);
    llvm::erase_if(stores, isBefore);
  }
  if (stores.empty())
    return;
  Operation *end = block.getTerminator();
  builder.setInsertionPoint(end);
  builder.create<dist::FlushOp>(end->getLoc(), 0);
}
