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
            "H0909: a program is left that is no step yet");
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == "train" && failed(verifyTraining(model, step)))
        return failure();
    return success();
  }

  /// The states that a name stands for: a bucket's members, or the one state.
  static SmallVector<StringRef> statesOf(const SymbolTable &symbols,
                                         StringRef name) {
    auto bucket = symbols.lookup<nn::BucketOp>(name);
    if (!bucket)
      return {name};
    return llvm::map_to_vector(
        bucket.getMembers().getAsRange<FlatSymbolRefAttr>(),
        [](FlatSymbolRefAttr member) { return member.getValue(); });
  }

  /// Whether the optimizer's new value is written.
  static bool isUpdate(nn::SetOp set) {
    return set.getValue().getDefiningOp<nn::AdamWOp>() != nullptr;
  }

  /// Every trainable parameter: a gradient, written before the optimizer reads
  /// it; a place in exactly one bucket that is updated once.
  LogicalResult verifyTraining(nn::ModelOp model, nn::StepOp step) {
    llvm::StringMap<int> written, updated;
    SymbolTable symbols(model);
    WalkResult walk = step.walk([&](Operation *op) {
      if (auto set = dyn_cast<nn::SetOp>(op))
        for (StringRef state : statesOf(symbols, set.getState())) {
          ++written[state];
          updated[state] += isUpdate(set);
        }
      auto get = dyn_cast<nn::GetOp>(op);
      if (!get)
        return WalkResult::advance();
      for (StringRef name : statesOf(symbols, get.getState())) {
        auto state = symbols.lookup<nn::StateOp>(name);
        if (state.getRole() == "gradient" && !written.count(name)) {
          get.emitError("H0909: reads the gradient @")
              << name << " before it is written";
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != "parameter" || !state.getTrainable())
        continue;
      if (!written.count((state.getSymName() + ".grad").str()))
        return state.emitError("H0909: trainable, but it gets no gradient: the "
                               "loss does not depend on it");
      if (updated.lookup(state.getSymName()) != 1)
        return state.emitError("H0909: updated ")
               << updated.lookup(state.getSymName())
               << " times in a step; once is right";
    }
    return success();
  }
};

} // namespace
