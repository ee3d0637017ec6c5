//===- Verify.cpp - What the train phase promises -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Train/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINVERIFY
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : heddle::impl::TrainVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (failed(verify(model)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(nn::ModelOp model) {
    for (auto function : model.getOps<nn::FuncOp>())
      if (function.getProgram())
        return function.emitError(
            "H0902: a program is left that is no step yet");
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == "train" && failed(verifyTraining(model, step)))
        return failure();
    return success();
  }

  /// Every trainable parameter: a gradient, written before the optimizer reads
  /// it; a place in exactly one bucket that is updated once.
  LogicalResult verifyTraining(nn::ModelOp model, nn::StepOp step) {
    llvm::StringMap<int> written, updated;
    SymbolTable symbols(model);
    step.walk([&](nn::SetOp set) {
      ++written[set.getState()];
      if (auto bucket = symbols.lookup<nn::BucketOp>(set.getState()))
        if (set.getValue().getDefiningOp<nn::AdamWOp>())
          for (auto member :
               bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
            ++updated[member.getValue()];
    });
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != "parameter" || !state.getTrainable())
        continue;
      if (!written.count((state.getSymName() + ".grad").str()))
        return state.emitError("H0902: trainable, but it gets no gradient: the "
                               "loss does not depend on it");
      if (updated.lookup(state.getSymName()) != 1)
        return state.emitError("H0902: updated ")
               << updated.lookup(state.getSymName())
               << " times in a step; once is right";
    }
    return success();
  }
};

} // namespace
