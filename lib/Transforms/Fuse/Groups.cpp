//===- Groups.cpp - What may be in one kernel
//-------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool fuse::isElementwise(Operation *op) {
  return isa<nn::AddOp, nn::MulOp, nn::GeluOp, nn::GeluGradOp, nn::SiluOp,
             nn::SiluGradOp, nn::ReluOp, nn::ReluGradOp, nn::CastOp,
             nn::DropoutOp>(op);
}

bool fuse::isRowWise(Operation *op) {
  return isElementwise(op) ||
         isa<nn::LayerNormOp, nn::LayerNormGradInputOp, nn::RmsNormOp,
             nn::RmsNormGradInputOp, nn::CrossEntropyOp, nn::CrossEntropyPartOp,
             nn::CrossEntropyGradOp, nn::EmbeddingOp, nn::AddBiasOp>(op);
}

ArrayRef<int64_t> fuse::domainOf(Operation *op) {
  if (isa<nn::CrossEntropyOp, nn::CrossEntropyPartOp>(op))
    return typeOf(op->getOperand(0)).getShape();
  return typeOf(op->getResult(0)).getShape();
}

void fuse::tiesOf(Operation *op, DenseMap<Value, Value> &ties) {
  auto tie = [&](Value result, Value operand) {
    if (operand)
      ties[result] = operand;
  };
  if (auto grad = dyn_cast<nn::LinearGradWeightOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto sum = dyn_cast<nn::SumRowsOp>(op))
    tie(sum.getOutput(), sum.getInit());
  if (auto sum = dyn_cast<nn::SumOp>(op))
    tie(sum.getOutput(), sum.getInit());
  if (auto grad = dyn_cast<nn::RmsNormGradWeightOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto grad = dyn_cast<nn::LayerNormGradWeightOp>(op)) {
    tie(grad.getWeightGrad(), grad.getWeightInit());
    tie(grad.getBiasGrad(), grad.getBiasInit());
  }
  // What is added to a state's value takes its place.
  if (auto add = dyn_cast<nn::AddOp>(op))
    if (add.getLhs().getDefiningOp<nn::GetOp>())
      tie(add.getOutput(), add.getLhs());
  if (auto adamw = dyn_cast<nn::AdamWOp>(op)) {
    tie(adamw.getNewParameter(), adamw.getParameter());
    tie(adamw.getNewExpAvg(), adamw.getExpAvg());
    tie(adamw.getNewExpAvgSq(), adamw.getExpAvgSq());
  }
  // The gradient of the logits takes the place of the logits: the largest
  // activation of all is not held twice.
  if (auto grad = dyn_cast<nn::CrossEntropyGradOp>(op))
    if (!isa<BlockArgument>(grad.getLogits()))
      tie(grad.getOutput(), grad.getLogits());
}

std::string fuse::generatorOf(Operation *op) {
  auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
  if (!lowering)
    return "";
  StringRef generator = lowering.getKernelGenerator();
  return generator.empty() ? "rows" : generator.str();
}

std::string fuse::refusal(Operation *op, StringRef generator,
                          ArrayRef<int64_t> domain) {
  if (generator != "gemm" && generator != "rows")
    return "its kernel (" + generator.str() + ") takes no further operation";
  if (!isRowWise(op) || (generator == "gemm" && !isElementwise(op)))
    return generator == "gemm"
               ? "only element-wise operations can be a product's epilogue"
               : "it does not go row by row";
  return domainOf(op) == domain ? "" : "it goes over another shape";
}
