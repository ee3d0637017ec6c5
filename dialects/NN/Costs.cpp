//===- Costs.cpp - FLOPs and memory traffic of operations -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Floating-point operations and memory traffic of the operations
// (CostOpInterface). A multiply-add counts as two operations. For element-wise
// operations the counts are rough, and include the polynomials by which
// generated code approximates functions such as exp.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/AttentionCost.h"
#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle::nn;

static double elements(Value value) {
  return static_cast<double>(
      cast<RankedTensorType>(value.getType()).getNumElements());
}

static double features(Value value) {
  return static_cast<double>(
      cast<RankedTensorType>(value.getType()).getShape().back());
}

double EmbeddingOp::getFlops() { return 0; }
/// The operation reads only those rows of the table that it looks up.
double EmbeddingOp::getBytesOf(Value value) {
  if (value != getTable())
    return bytesOf(value);
  return elements(getOutput()) *
         cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() / 8;
}
double TakeRowOp::getBytesOf(Value value) {
  return bytesOf(value == getInput() ? getOutput() : value);
}
double EmbeddingGradOp::getFlops() { return elements(getGrad()); }
double PositionsOp::getFlops() { return 0; }
double ReorderOp::getFlops() { return 0; }
double AddOp::getFlops() { return elements(getOutput()); }
double MulOp::getFlops() { return elements(getOutput()); }
double CastOp::getFlops() { return 0; }
double ReshapeOp::getFlops() { return 0; }
double SliceOp::getFlops() { return 0; }
double ConcatOp::getFlops() { return 0; }
double DropoutOp::getFlops() { return elements(getOutput()); }
double LinearOp::getFlops() {
  bool adds = getBias() || getInit();
  return getModelFlops() + (adds ? elements(getOutput()) : 0);
}
double LinearOp::getModelFlops() {
  return 2 * elements(getInput()) * features(getOutput());
}
double AddBiasOp::getFlops() { return elements(getInput()); }
double LinearGradWeightOp::getFlops() { return getModelFlops(); }
double LinearGradWeightOp::getModelFlops() {
  return 2 * elements(getInput()) * features(getGrad());
}
double SumRowsOp::getFlops() { return elements(getInput()); }
double LayerNormOp::getFlops() { return 8 * elements(getInput()); }
double LayerNormGradInputOp::getFlops() { return 11 * elements(getInput()); }
double LayerNormGradWeightOp::getFlops() { return 5 * elements(getInput()); }
double RmsNormOp::getFlops() { return 4 * elements(getInput()); }
double RmsNormGradInputOp::getFlops() { return 8 * elements(getInput()); }
double RmsNormGradWeightOp::getFlops() { return 3 * elements(getInput()); }
double RotaryOp::getFlops() { return 3 * elements(getInput()); }

double heddle::nn::meanKeysOf(AttentionOpInterface op) {
  MaskAttr mask = op.getMask();
  double keys = mask.meanKeys(tensorOf(op.getQkv()[0]).getDimSize(1));
  // The mask's own number leaves out the half of each block on the diagonal
  // that a causal mask hides. Only one step of a ring has these blocks.
  if (!mask.hasLayout() || !mask.isCausal())
    return keys;
  double hidden = (static_cast<double>(mask.getBlock()) - 1) / 2;
  double seen = static_cast<double>(tensorOf(op.getQkv()[0]).getDimSize(1)) *
                mask.getDensity().getValueAsDouble();
  return std::max(seen - hidden / static_cast<double>(op.getSequenceShards()),
                  0.0);
}

/// The floating-point operations of attention's two matrix products, Q K^T and
/// P V, over all pairs (query, key) that the mask allows. The compiler does not
/// know the lengths of sequences, so the cost assumes the greatest length.
static double attentionFlops(AttentionOpInterface op, Value output) {
  return 4 * elements(output) * meanKeysOf(op);
}

double AttentionOp::getFlops() { return getModelFlops(); }
double AttentionOp::getModelFlops() {
  return attentionFlops(*this, getOutput());
}
double AttentionGradOp::getFlops() {
  return 2.5 * attentionFlops(*this, getForward());
}
// The gradient has five products. One of them recomputes the scores, and
// recomputation does not count for model FLOPs utilization, so count four.
double AttentionGradOp::getModelFlops() {
  return 2 * attentionFlops(*this, getForward());
}
double AttentionJoinOp::getFlops() { return 10 * elements(getOutput()); }
double LogAddExpOp::getFlops() { return 10 * elements(getOutput()); }
double CrossEntropyOp::getFlops() { return 10 * elements(getLogits()); }
double CrossEntropyPartOp::getFlops() { return 10 * elements(getLogits()); }
double CrossEntropyJoinOp::getFlops() { return 10 * elements(getLses()); }
double CrossEntropyGradOp::getFlops() { return 10 * elements(getLogits()); }
double SumOp::getFlops() {
  return (getWeights() ? 2 : 1) * elements(getInput());
}
double CountLabelsOp::getFlops() { return elements(getLabels()); }
double LossScaleOp::getFlops() { return 1; }
double TokenWeightsOp::getFlops() { return elements(getOutput()); }
double TakeRowOp::getFlops() { return 0; }
double FillOp::getFlops() { return 0; }
double SquareSumsOp::getFlops() { return 2 * elements(getInput()); }
double GlobalNormOp::getFlops() {
  double flops = 0;
  for (Value input : getInputs())
    flops += 2 * elements(input);
  return flops;
}
double AdvancePowerOp::getFlops() { return 2; }
double CountUpdateOp::getFlops() { return 1; }
double TakeRateOp::getFlops() { return 1; }
double AdvanceLossScaleOp::getFlops() { return 10; }
