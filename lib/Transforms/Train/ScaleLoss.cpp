//===- ScaleLoss.cpp - Multiplies the loss's gradient by the loss scale ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `train-scale-loss`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Scalars.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/Settings/LossScale.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINSCALELOSS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct ScaleLoss : heddle::impl::TrainScaleLossBase<ScaleLoss> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    std::optional<config::LossScale> scale =
        config::lossScaleOf(model.getStrategy().getValue());
    if (!scale)
      return;
    SmallVector<nn::StepOp> steps;
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train)
        steps.push_back(step);
    if (steps.empty())
      return;
    addStates(model, *scale);
    for (nn::StepOp step : steps) {
      SmallVector<nn::TokenWeightsOp> all;
      step.walk([&](nn::TokenWeightsOp weights) { all.push_back(weights); });
      for (nn::TokenWeightsOp weights : all)
        if (failed(scaleGradient(model, step, weights)))
          return signalPassFailure();
    }
  }

private:
  RankedTensorType number() {
    return RankedTensorType::get({}, Float32Type::get(&getContext()));
  }

  /// Adds the states of the loss scale. A checkpoint holds those of a dynamic
  /// scale. A static scale is that of the binary, whatever run it continues.
  void addStates(nn::ModelOp model, const config::LossScale &scale) {
    OpBuilder builder = OpBuilder::atBlockBegin(model.getBodyBlock());
    std::pair<StringRef, double> states[] = {
        {plan::lossScaleState, scale.initial},
        {plan::lossScaleLeftState, double(scale.hysteresis)},
        {plan::lossScaleStepsState, 0}};
    for (auto [name, initial] : states) {
      auto state = builder.create<nn::StateOp>(
          model.getLoc(), name, nn::StateRole::Optimizer, number());
      state.setCheckpointed(scale.isDynamic());
      state.setInitAttr(nn::InitAttr::get(&getContext(), nn::InitKind::Constant,
                                          builder.getF64FloatAttr(initial),
                                          builder.getF64FloatAttr(0),
                                          /*zeroRow=*/-1));
    }
  }

  /// Replaces the weights of tokens by weights that are multiplied by the loss
  /// scale, in all operations of the backward pass: the gradient of the loss of
  /// a token is its weight. The sums that compute the loss keep the weights.
  LogicalResult scaleGradient(nn::ModelOp model, nn::StepOp step,
                              nn::TokenWeightsOp weights) {
    auto isOfGradient = [](OpOperand &use) {
      return !isa<nn::SumOp>(use.getOwner());
    };
    if (llvm::none_of(weights->getUses(), isOfGradient))
      return success();
    auto factor = weights.getScale().getDefiningOp<nn::GetOp>();
    auto sets = step.getBody().getOps<nn::SetOp>();
    auto set = llvm::find_if(sets, [&](nn::SetOp set) {
      return factor && set.getState() == factor.getState();
    });
    if (set == sets.end())
      return weights.emitError(
          "H0909: has a scale that the step does not compute before its loop");
    OpBuilder builder(weights);
    builder.setInsertionPointAfter(weights);
    Value product = builder.create<nn::GetOp>(weights.getLoc(), number(),
                                              addProduct(model, *set));
    auto scaled = cast<nn::TokenWeightsOp>(builder.clone(*weights));
    scaled.getScaleMutable().assign(product);
    weights->replaceUsesWithIf(scaled->getResults(), isOfGradient);
    return success();
  }

  /// Multiplies the factor that `set` writes by the loss scale, and writes the
  /// product to another state: only operations of the step itself may read the
  /// loss scale, which belongs to the optimizer. Returns the state's name.
  StringRef addProduct(nn::ModelOp model, nn::SetOp set) {
    std::string name = (set.getState() + ".scaled").str();
    if (auto known = model.lookupSymbol<nn::StateOp>(name))
      return known.getSymName();
    Location loc = set.getLoc();
    auto state =
        OpBuilder::atBlockBegin(model.getBodyBlock())
            .create<nn::StateOp>(loc, name, nn::StateRole::Scalar, number());
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(set);
    Value operands[] = {
        set.getValue(),
        builder.create<nn::GetOp>(loc, number(), plan::lossScaleState)};
    builder.create<nn::SetOp>(
        loc, name,
        nn::buildMap(builder, loc, operands, [](nn::Scalars &s, ValueRange x) {
          return s.mul(x[0], x[1]);
        }));
    return state.getSymName();
  }
};

} // namespace
