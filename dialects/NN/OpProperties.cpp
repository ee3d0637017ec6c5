//===- OpProperties.cpp - In-place results and sums of operations ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle::nn;

SmallVector<Init> heddle::nn::sumsOf(Operation *op) {
  auto properties = dyn_cast<PropertiesOpInterface>(op);
  return properties ? properties.getSums() : SmallVector<Init>();
}

SmallVector<Init> heddle::nn::initsOf(Operation *op) {
  SmallVector<Init> inits = sumsOf(op);
  llvm::erase_if(inits, [](const Init &init) { return init.operand.empty(); });
  return inits;
}

SmallVector<Tie> heddle::nn::tiesOfInits(Operation *op) {
  SmallVector<Tie> ties;
  for (Init init : initsOf(op))
    ties.push_back({init.result, init.operand[0].get()});
  return ties;
}

// Computes the sum in place of the left operand if this operand is a state and
// the sum is its new value. The state then needs no second buffer.
SmallVector<Tie> AddOp::getTies() {
  return {{getOutput(), getLhs(), Tie::Worth::OfState}};
}

// Computes the gradient of the logits in place of the logits. Logits are the
// largest activation of a model, so memory must not hold both at the same time.
SmallVector<Tie> CrossEntropyGradOp::getTies() {
  return {{getOutput(), getLogits(), Tie::Worth::OfComputed}};
}

SmallVector<Tie> UpdateOp::getTies() {
  SmallVector<Tie> ties = {{getNewParameter(), getParameter()}};
  for (auto [next, state] : llvm::zip(getNewStates(), getStates()))
    ties.push_back({next, state});
  return ties;
}

SmallVector<Tie> AdvancePowerOp::getTies() { return {{getNext(), getPower()}}; }

SmallVector<Tie> CountUpdateOp::getTies() { return {{getNext(), getCount()}}; }

SmallVector<Tie> AdvanceLossScaleOp::getTies() {
  return {{getNextScale(), getScale()},
          {getNextLeft(), getLeft()},
          {getNextSteps(), getSteps()},
          {getNextEnded(), getEnded()}};
}
