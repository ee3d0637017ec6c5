//===- DelayedScalars.cpp - Numbers of the step before --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DelayedScalars.h"
#include "UpdateCondition.h"
#include "dialects/NN/Scalars.h"

using namespace mlir;
using namespace heddle;

Value train::DelayedScalars::delay(OpBuilder &builder, nn::StepOp step,
                                   Value number, StringRef name) {
  nn::StateOp state = addState(step, name, number.getType());
  state.setCheckpointed(true);
  auto before =
      builder.create<nn::GetOp>(step.getLoc(), number.getType(), name);
  delayed.push_back({before, number});
  return before;
}

void train::DelayedScalars::keep(OpBuilder &builder) {
  for (auto [before, number] : delayed) {
    Location loc = before.getLoc();
    auto kept = builder.create<nn::UpdateOp>(
        loc, TypeRange(number.getType()), "delay", before, number, ValueRange(),
        ValueRange(), Value(), nullptr);
    Block &block = kept.getBody().emplaceBlock();
    nn::Scalars s(loc, builder.getContext());
    s.setInsertionPointToEnd(&block);
    block.addArgument(s.getF64Type(), loc);
    Value now = block.addArgument(s.getF64Type(), loc);
    s.create<nn::ReturnOp>(finiteOrZero(s, now));
    builder.create<nn::SetOp>(loc, before.getState(), kept.getNewParameter());
  }
  delayed.clear();
}
