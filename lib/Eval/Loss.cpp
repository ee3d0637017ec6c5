//===- Loss.cpp - Cross-entropy, sums, rows ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"
#include <cmath>

using namespace mlir;

namespace heddle::eval {

namespace {

LogicalResult evalCrossEntropy(nn::CrossEntropyOp op, const Inputs &in,
                               Outputs &out) {
  const Tensor &logits = in[op.getLogits()];
  double *losses = out.floats(op.getLosses());
  double *lses = out.floats(op.getLse());
  int64_t vocab = logits.columns();
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    if (label >= vocab)
      return op.emitError("label ") << label << " is not below " << vocab;
    llvm::ArrayRef<double> scores = logits.floats().slice(row * vocab, vocab);
    double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double score : scores)
      sum += std::exp(score - largest);
    lses[row] = largest + std::log(sum);
    losses[row] = label < 0 ? 0 : lses[row] - scores[label];
  }
  return success();
}

LogicalResult evalCrossEntropyGrad(nn::CrossEntropyGradOp op, const Inputs &in,
                                   Outputs &out) {
  const double *logits = in.floats(op.getLogits());
  const double *lses = in.floats(op.getLse());
  double *output = out.floats(op.getOutput());
  double scale = op.getScale().convertToDouble();
  int64_t vocab = in[op.getLogits()].columns();
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    if (label < 0)
      continue;
    for (int64_t v = 0; v < vocab; ++v) {
      int64_t index = static_cast<int64_t>(row) * vocab + v;
      output[index] =
          scale * (std::exp(logits[index] - lses[row]) - (v == label));
    }
  }
  return success();
}

LogicalResult evalSum(nn::SumOp op, const Inputs &in, Outputs &out) {
  double sum = 0;
  for (double value : in[op.getInput()].floats())
    sum += value;
  const double *init = in.findFloats(op.getInit());
  *out.floats(op.getOutput()) =
      (init ? *init : 0) + op.getScale().convertToDouble() * sum;
  return success();
}

LogicalResult evalTakeRow(nn::TakeRowOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  int64_t columns = input.columns();
  int64_t length = input.shape()[input.rank() - 2];
  int64_t position = in.integer(op.getPosition());
  if (position < 0 || position >= length)
    return op.emitError("position ")
           << position << " is not in [0, " << length << ")";
  double *output = out.floats(op.getOutput());
  for (int64_t batch = 0; batch < input.rows() / length; ++batch)
    for (int64_t c = 0; c < columns; ++c)
      output[batch * columns + c] =
          input.floats()[(batch * length + position) * columns + c];
  return success();
}

} // namespace

void attachLossEvaluations(MLIRContext &context) {
  attachEvaluation<nn::CrossEntropyOp, evalCrossEntropy>(context);
  attachEvaluation<nn::CrossEntropyGradOp, evalCrossEntropyGrad>(context);
  attachEvaluation<nn::SumOp, evalSum>(context);
  attachEvaluation<nn::TakeRowOp, evalTakeRow>(context);
}

} // namespace heddle::eval
