//===- Verify.cpp - What the model phase promises -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Model/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_MODELVERIFY
#include "include/heddle/Transforms/Model/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : heddle::impl::ModelVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (failed(verify(model)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(nn::ModelOp model) {
    auto strategy =
        dist::Strategy::fromDictionary(model.getStrategy().getValues());
    llvm::StringSet<> read;
    WalkResult walk = model.walk([&](Operation *op) {
      if (auto get = dyn_cast<nn::GetOp>(op))
        read.insert(get.getState());
      if (isa<nn::StepOp, nn::SetOp>(op)) {
        op->emitError("H0901: the model phase holds forward functions only");
        return WalkResult::interrupt();
      }
      return failed(verifyPrecision(op, strategy.precision))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    StringRef role =
        strategy.precision == "fp32" ? "parameter" : "compute-copy";
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == role && !read.contains(state.getSymName()))
        return state.emitError("H0901: no function reads this parameter");
    return success();
  }

  LogicalResult verifyPrecision(Operation *op, StringRef precision) {
    auto linear = dyn_cast<nn::LinearOp>(op);
    if (!linear)
      return success();
    Type element =
        cast<RankedTensorType>(linear.getOutput().getType()).getElementType();
    bool right = precision == "fp32"   ? element.isF32()
                 : precision == "bf16" ? element.isBF16()
                                       : element.isF16();
    if (right)
      return success();
    return op->emitError("H0901: computes in ")
           << element << ", the strategy's precision is " << precision;
  }
};

} // namespace
