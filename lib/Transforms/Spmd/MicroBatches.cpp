//===- MicroBatches.cpp - Some micro-batches in a loop of their own -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MicroBatches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

nn::MicroBatchesOp heddle::spmd::splitFirst(nn::MicroBatchesOp loop,
                                            int64_t count) {
  OpBuilder builder(loop);
  auto first = cast<nn::MicroBatchesOp>(builder.clone(*loop));
  first.setCount(count);
  loop.setCount(loop.getCount() - count);
  Block &body = loop->getRegion(0).front();
  Location loc = loop.getLoc();
  Value index = body.getArgument(0);
  builder.setInsertionPointToStart(&body);
  Value before = builder.create<arith::ConstantIndexOp>(loc, count);
  Value number = builder.create<arith::AddIOp>(loc, index, before);
  index.replaceAllUsesExcept(number, number.getDefiningOp());
  return first;
}

bool heddle::spmd::keepsValues(nn::StepOp step) {
  return step.walk([](nn::KeepOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}
