//===- ApplyPrecision.cpp - Makes the compute precision explicit ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Model/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_MODELAPPLYPRECISION
#include "include/heddle/Transforms/Model/Passes.h.inc"
} // namespace heddle

namespace {

/// Whether the result stays f32 in every precision: statistics and losses.
bool staysF32(OpResult result) {
  Operation *op = result.getOwner();
  if (isa<nn::CrossEntropyOp>(op))
    return true;
  return isa<nn::LayerNormOp, nn::RmsNormOp, nn::AttentionOp>(op) &&
         result.getResultNumber() > 0;
}

struct ApplyPrecision : heddle::impl::ModelApplyPrecisionBase<ApplyPrecision> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      auto strategy =
          dist::Strategy::fromDictionary(model.getStrategy().getValues());
      if (strategy.precision == "fp32")
        continue;
      MLIRContext *context = &getContext();
      compute = strategy.precision == "bf16" ? Type(BFloat16Type::get(context))
                                             : Type(Float16Type::get(context));
      addCopies(model, strategy.precision);
      for (auto function : model.getOps<nn::FuncOp>())
        convert(function);
    }
  }

private:
  Type lowered(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.getElementType().isF32())
      return type;
    return tensor.clone(compute);
  }

  /// Gives every parameter a copy in compute precision and reads that instead.
  void addCopies(nn::ModelOp model, StringRef precision) {
    OpBuilder builder(&getContext());
    llvm::StringMap<std::string> copies;
    for (auto state : llvm::make_early_inc_range(model.getOps<nn::StateOp>())) {
      if (state.getRole() != "parameter")
        continue;
      std::string name = (state.getSymName() + "." + precision).str();
      copies[state.getSymName()] = name;
      builder.setInsertionPointAfter(state);
      auto copy = cast<nn::StateOp>(builder.clone(*state));
      copy.setSymName(name);
      copy.setRole("compute-copy");
      copy.setType(lowered(state.getType()));
      copy.setParameterAttr(builder.getStringAttr(state.getSymName()));
      copy.setCheckpointed(false);
      copy.removeInitAttr();
      copy.removeSourceAttr();
      copy.removeSourceTypeAttr();
      ++numCopies;
    }
    model.walk([&](nn::GetOp get) {
      auto copy = copies.find(get.getState());
      if (copy == copies.end())
        return;
      get.setState(copy->second);
      get->getResult(0).setType(lowered(get.getType()));
    });
  }

  void convert(nn::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      argument.setType(lowered(argument.getType()));
    // The ids and the index of a micro-batch are integers and stay; losses, as
    // results, are taken from the terminator.
    function.walk([&](Operation *op) {
      for (OpResult result : op->getResults())
        if (!staysF32(result))
          result.setType(lowered(result.getType()));
    });
    // Calls return what their callee returns, losses included.
    auto terminator = cast<nn::ReturnOp>(function.getBody().back().back());
    function.setFunctionType(
        FunctionType::get(&getContext(), function.getBody().getArgumentTypes(),
                          terminator.getOperandTypes()));
  }

  Type compute;
};

} // namespace
