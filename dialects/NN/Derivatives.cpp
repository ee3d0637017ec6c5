//===- Derivatives.cpp - Derivatives of the nn operations -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The derivatives of the operations (DifferentiableOpInterface), as nn
// operations. The operation that computes a parameter's gradient also adds it
// to the gradient accumulated so far (GradientContext::accumulator), so that no
// separate addition has to read the gradient from memory.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle::nn;

RankedTensorType heddle::nn::gradientType(Type parameter) {
  return cast<RankedTensorType>(parameter).clone(
      Float32Type::get(parameter.getContext()));
}

/// The forward value of an operand; null if the operand is absent.
static Value forwardOrNone(GradientContext &context, Value value) {
  return value ? context.forward(value) : Value();
}

//===----------------------------------------------------------------------===//
// Operations without a derivative
//===----------------------------------------------------------------------===//

#define HEDDLE_NOT_DIFFERENTIABLE(OP, WHY)                                     \
  llvm::StringRef OP::getNotDifferentiableReason() { return WHY; }

static constexpr llvm::StringLiteral isGradient =
    "it computes a gradient; second derivatives are not taken";
static constexpr llvm::StringLiteral isRanksPart =
    "it is made for the ranks that share a vocabulary, after differentiation";
static constexpr llvm::StringLiteral isExchanged =
    "it is made for ranks that split what they compute, after differentiation";
static constexpr llvm::StringLiteral isOfLabels =
    "it depends on labels and their weights alone";
static constexpr llvm::StringLiteral isOptimizer =
    "it belongs to the optimizer, after the last gradient";

HEDDLE_NOT_DIFFERENTIABLE(EmbeddingGradOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(LinearGradWeightOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(SumRowsOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(LayerNormGradInputOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(LayerNormGradWeightOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(RmsNormGradInputOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(RmsNormGradWeightOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(AttentionGradOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(CrossEntropyGradOp, isGradient)
HEDDLE_NOT_DIFFERENTIABLE(CrossEntropyPartOp, isRanksPart)
HEDDLE_NOT_DIFFERENTIABLE(CrossEntropyJoinOp, isRanksPart)
HEDDLE_NOT_DIFFERENTIABLE(AttentionJoinOp, isExchanged)
HEDDLE_NOT_DIFFERENTIABLE(LogAddExpOp, isExchanged)
HEDDLE_NOT_DIFFERENTIABLE(SliceOp, isExchanged)
HEDDLE_NOT_DIFFERENTIABLE(ConcatOp, isExchanged)
HEDDLE_NOT_DIFFERENTIABLE(FillOp, "it is constant")
HEDDLE_NOT_DIFFERENTIABLE(CountLabelsOp, isOfLabels)
HEDDLE_NOT_DIFFERENTIABLE(LossScaleOp, isOfLabels)
HEDDLE_NOT_DIFFERENTIABLE(TokenWeightsOp, isOfLabels)
HEDDLE_NOT_DIFFERENTIABLE(SquareSumsOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(GlobalNormOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(UpdateOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(AdvancePowerOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(CountUpdateOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(TakeRateOp, isOptimizer)
HEDDLE_NOT_DIFFERENTIABLE(AdvanceLossScaleOp, isOptimizer)
#undef HEDDLE_NOT_DIFFERENTIABLE

/// The operation has no operands, so there is nothing to differentiate.
void PositionsOp::buildGradient(OpBuilder &, GradientContext &) {}

//===----------------------------------------------------------------------===//
// Element-wise
//===----------------------------------------------------------------------===//

void AddOp::buildGradient(OpBuilder &, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  for (Value operand : {getLhs(), getRhs()})
    if (context.isActive(operand))
      context.add(operand, grad);
}

void MulOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  auto contribute = [&](Value operand, Value other) {
    if (context.isActive(operand))
      context.add(operand,
                  builder.create<MulOp>(getLoc(), grad, context.forward(other),
                                        /*shardings=*/nullptr));
  };
  contribute(getLhs(), getRhs());
  contribute(getRhs(), getLhs());
}

void CastOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (context.isActive(getInput()))
    context.add(getInput(), builder.create<CastOp>(
                                getLoc(), getInput().getType(),
                                context.gradientOf(getOutput()), nullptr));
}

void DropoutOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (!context.isActive(getInput()))
    return;
  Value grad = context.gradientOf(getOutput());
  SmallVector<Value> part;
  for (Value number : getPart())
    part.push_back(context.forward(number));
  context.add(getInput(),
              builder.create<DropoutOp>(
                  getLoc(), grad.getType(), grad, context.forward(getRng()),
                  context.forward(getLayer()), context.forward(getMicroBatch()),
                  part, getPAttr(), getSiteAttr(), getPartsAttr(),
                  getInnerAttr(), nullptr));
}

//===----------------------------------------------------------------------===//
// Embeddings and linear
//===----------------------------------------------------------------------===//

void EmbeddingOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (context.isActive(getTable()))
    context.setAccumulated(
        getTable(),
        builder.create<EmbeddingGradOp>(
            getLoc(), gradientType(getTable().getType()),
            context.gradientOf(getOutput()), context.forward(getIds()),
            context.accumulator(getTable()), forwardOrNone(context, getFirst()),
            getPaddingAttr(), nullptr));
}

/// Computes the gradient of a bias, the sum over rows of `grad`, and passes it
/// to the context.
static void addBiasGradient(OpBuilder &builder, GradientContext &context,
                            Location loc, Value bias, Value grad) {
  context.setAccumulated(
      bias, builder.create<SumRowsOp>(loc, gradientType(bias.getType()), grad,
                                      context.accumulator(bias), nullptr));
}

void ReshapeOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (context.isActive(getInput()))
    context.add(getInput(), builder.create<ReshapeOp>(
                                getLoc(), getInput().getType(),
                                context.gradientOf(getOutput()), nullptr));
}

void AddBiasOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  if (context.isActive(getInput()))
    context.add(getInput(), grad);
  if (context.isActive(getBias()))
    addBiasGradient(builder, context, getLoc(), getBias(), grad);
}

// dx = dy w^T, dw = x^T dy, db = sum over rows of dy.
void LinearOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  if (context.isActive(getInput())) {
    auto flipped = getTransposed() ? UnitAttr() : builder.getUnitAttr();
    context.add(getInput(),
                builder.create<LinearOp>(getLoc(), getInput().getType(), grad,
                                         context.forward(getWeight()),
                                         /*bias=*/Value(), /*init=*/Value(),
                                         flipped, nullptr));
  }
  if (getInit() && context.isActive(getInit()))
    context.add(getInit(), grad);
  if (context.isActive(getWeight()))
    context.setAccumulated(getWeight(),
                           builder.create<LinearGradWeightOp>(
                               getLoc(), gradientType(getWeight().getType()),
                               context.forward(getInput()), grad,
                               context.accumulator(getWeight()),
                               getTransposedAttr(), nullptr));
  if (getBias() && context.isActive(getBias()))
    addBiasGradient(builder, context, getLoc(), getBias(), grad);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

void LayerNormOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  Value input = context.forward(getInput());
  Value mean = context.forward(getMean()), rstd = context.forward(getRstd());
  if (context.isActive(getWeight()) || context.isActive(getBias())) {
    auto sums = builder.create<LayerNormGradWeightOp>(
        getLoc(), gradientType(getWeight().getType()),
        gradientType(getBias().getType()), grad, input, mean, rstd,
        context.accumulator(getWeight()), context.accumulator(getBias()),
        nullptr);
    context.setAccumulated(getWeight(), sums.getWeightGrad());
    context.setAccumulated(getBias(), sums.getBiasGrad());
  }
  if (context.isActive(getInput()))
    context.add(getInput(),
                builder.create<LayerNormGradInputOp>(
                    getLoc(), getInput().getType(), grad, input,
                    context.forward(getWeight()), mean, rstd, nullptr));
}

void RmsNormOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  Value grad = context.gradientOf(getOutput());
  Value input = context.forward(getInput());
  Value rstd = context.forward(getRstd());
  if (context.isActive(getWeight()))
    context.setAccumulated(getWeight(),
                           builder.create<RmsNormGradWeightOp>(
                               getLoc(), gradientType(getWeight().getType()),
                               grad, input, rstd,
                               context.accumulator(getWeight()), nullptr));
  if (context.isActive(getInput()))
    context.add(getInput(), builder.create<RmsNormGradInputOp>(
                                getLoc(), getInput().getType(), grad, input,
                                context.forward(getWeight()), rstd, nullptr));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// The input's gradient is the output's gradient rotated by the negative angle,
// because the transpose of a rotation is its inverse.
void RotaryOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (!context.isActive(getInput()))
    return;
  auto inverse = getInverse() ? UnitAttr() : builder.getUnitAttr();
  context.add(getInput(), builder.create<RotaryOp>(
                              getLoc(), getInput().getType(),
                              context.gradientOf(getOutput()),
                              context.forward(getPositions()), getHeadsAttr(),
                              getDimsAttr(), getThetaAttr(), getScalingAttr(),
                              inverse, nullptr));
}

void AttentionOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  if (llvm::none_of(getQkv(), [&](Value v) { return context.isActive(v); }))
    return;
  SmallVector<Value> qkv;
  for (Value operand : getQkv())
    qkv.push_back(context.forward(operand));
  auto grads = builder.create<AttentionGradOp>(
      getLoc(), getQkv().getTypes(), context.gradientOf(getOutput()), qkv,
      context.forward(getOutput()), context.forward(getLse()),
      forwardOrNone(context, getLengths()), forwardOrNone(context, getLayout()),
      forwardOrNone(context, getRng()), forwardOrNone(context, getLayer()),
      forwardOrNone(context, getMicroBatch()),
      forwardOrNone(context, getPart()),
      forwardOrNone(context, getSequenceShard()),
      forwardOrNone(context, getRingStep()), getHeads(), getMask(),
      getDropoutAttr(), getPlacementAttr(), nullptr);
  for (auto [operand, grad] : llvm::zip(getQkv(), grads.getOutputs()))
    if (context.isActive(operand))
      context.add(operand, grad);
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

// The step's loss is a weighted sum of the losses of tokens. So the gradient of
// a token's loss, `grad`, is the token's weight in this sum.
void CrossEntropyOp::buildGradient(OpBuilder &builder,
                                   GradientContext &context) {
  Value grad = context.gradientOf(getLosses());
  if (grad && context.isActive(getLogits()))
    context.add(getLogits(),
                builder.create<CrossEntropyGradOp>(
                    getLoc(), getLogits().getType(),
                    context.forward(getLogits()), context.forward(getLabels()),
                    context.forward(getLse()), grad, /*first=*/Value(),
                    /*vocab=*/IntegerAttr(), getSmoothingAttr(), nullptr));
}

llvm::StringRef SumOp::getNotDifferentiableReason() {
  return "it ends the forward pass: the gradient of each loss is its weight";
}

llvm::StringRef ReorderOp::getNotDifferentiableReason() {
  return "it brings values to weights that are codes, in inference only";
}

llvm::StringRef TakeRowOp::getNotDifferentiableReason() {
  return "it selects the position of a generated token, in inference only";
}
