//===- Loss.cpp - Cross-entropy and reductions ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of cross-entropy and its gradient, of sums and weights
// of losses, and of nn.take_row, which selects one token of each sequence.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::eval {

namespace {

/// The log-sum-exp of the scores; the lowest f32 if there are none.
double logSumExp(llvm::ArrayRef<double> scores) {
  double largest = std::numeric_limits<float>::lowest();
  for (double score : scores)
    largest = std::max(largest, score);
  double sum = 0;
  for (double score : scores)
    sum += std::exp(score - largest);
  return scores.empty() ? largest : largest + std::log(sum);
}

/// Returns the mean of a row's logits, for label smoothing. If `scores` is only
/// a shard of the `vocab` logits, returns the shard's sum divided by `vocab`.
/// These values of all shards add up to the mean.
double share(llvm::ArrayRef<double> scores, int64_t vocab) {
  return std::accumulate(scores.begin(), scores.end(), 0.0) / double(vocab);
}

LogicalResult evalCrossEntropy(nn::CrossEntropyOp op, const Inputs &in,
                               Outputs &out) {
  const Tensor &logits = in[op.getLogits()];
  double *losses = out.floats(op.getLosses());
  double *lses = out.floats(op.getLse());
  int64_t vocab = logits.columns();
  double smoothing = op.getSmoothing().convertToDouble();
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    if (label >= vocab)
      return op.emitError("label ") << label << " is not below " << vocab;
    llvm::ArrayRef<double> scores = logits.floats().slice(row * vocab, vocab);
    lses[row] = logSumExp(scores);
    if (label < 0)
      continue;
    double logit = scores[label];
    losses[row] =
        lses[row] - logit - smoothing * (share(scores, vocab) - logit);
  }
  return success();
}

/// The range of columns of the whole logits that are in a shard.
struct Columns {
  int64_t first, count;

  /// The columns of a shard that begins at column `first` and is `width`
  /// columns wide. Columns from `vocab` on are padding and do not count.
  Columns(int64_t first, int64_t width, int64_t vocab)
      : first(first),
        count(std::max<int64_t>(0, std::min(width, vocab - first))) {}
};

LogicalResult evalCrossEntropyPart(nn::CrossEntropyPartOp op, const Inputs &in,
                                   Outputs &out) {
  const Tensor &logits = in[op.getLogits()];
  double *lses = out.floats(op.getLse());
  double *labelLogits = out.floats(op.getLabelLogit());
  int64_t width = logits.columns(), vocab = op.getVocab();
  Columns columns(in.integer(op.getFirst()), width, vocab);
  double smoothing = op.getSmoothing().convertToDouble();
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    if (label >= vocab)
      return op.emitError("label ") << label << " is not below " << vocab;
    llvm::ArrayRef<double> scores =
        logits.floats().slice(row * width, columns.count);
    lses[row] = logSumExp(scores);
    int64_t column = label - columns.first;
    if (label >= 0)
      labelLogits[row] = smoothing * share(scores, vocab);
    if (label >= 0 && column >= 0 && column < columns.count)
      labelLogits[row] += (1 - smoothing) * scores[column];
  }
  return success();
}

LogicalResult evalCrossEntropyJoin(nn::CrossEntropyJoinOp op, const Inputs &in,
                                   Outputs &out) {
  const double *lses = in.floats(op.getLses());
  const double *labelLogits = in.floats(op.getLabelLogit());
  double *losses = out.floats(op.getLosses());
  int64_t rows = in[op.getLabels()].numElements();
  std::vector<double> ofRow(in[op.getLses()].numElements() / rows);
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    for (auto [part, value] : llvm::enumerate(ofRow))
      value = lses[part * rows + row];
    double lse = logSumExp(ofRow);
    out.floats(op.getLse())[row] = lse;
    losses[row] = label < 0 ? 0 : lse - labelLogits[row];
  }
  return success();
}

LogicalResult evalCrossEntropyGrad(nn::CrossEntropyGradOp op, const Inputs &in,
                                   Outputs &out) {
  const double *logits = in.floats(op.getLogits());
  const double *lses = in.floats(op.getLse());
  double *output = out.floats(op.getOutput());
  const double *grads = in.floats(op.getGrad());
  int64_t width = in[op.getLogits()].columns();
  auto vocab = static_cast<int64_t>(op.getVocab().value_or(width));
  Columns columns(in.integerOr(op.getFirst(), 0), width, vocab);
  double smoothing = op.getSmoothing().convertToDouble();
  for (auto [row, label] : llvm::enumerate(in.ints(op.getLabels()))) {
    if (label < 0)
      continue;
    for (int64_t v = 0; v < columns.count; ++v) {
      int64_t index = static_cast<int64_t>(row) * width + v;
      bool isLabel = columns.first + v == label;
      double target = (1 - smoothing) * isLabel + smoothing / double(vocab);
      output[index] =
          grads[row] * (std::exp(logits[index] - lses[row]) - target);
    }
  }
  return success();
}

LogicalResult evalSum(nn::SumOp op, const Inputs &in, Outputs &out) {
  double sum = 0;
  const double *weights = in.findFloats(op.getWeights());
  for (auto [index, value] : llvm::enumerate(in[op.getInput()].floats()))
    sum += (weights ? weights[index] : 1) * value;
  const double *init = in.findFloats(op.getInit());
  *out.floats(op.getOutput()) = (init ? *init : 0) + sum;
  return success();
}

LogicalResult evalCountLabels(nn::CountLabelsOp op, const Inputs &in,
                              Outputs &out) {
  double sum = 0;
  const double *weights = in.findFloats(op.getWeights());
  for (auto [index, label] : llvm::enumerate(in.ints(op.getLabels())))
    if (label >= 0)
      sum += weights ? weights[index] : 1;
  *out.floats(op.getOutput()) = sum;
  return success();
}

LogicalResult evalLossScale(nn::LossScaleOp op, const Inputs &in,
                            Outputs &out) {
  double count = in.number(op.getCount());
  *out.floats(op.getOutput()) = count == 0 ? 0 : 1 / count;
  return success();
}

LogicalResult evalTokenWeights(nn::TokenWeightsOp op, const Inputs &in,
                               Outputs &out) {
  double scale = in.number(op.getScale());
  const double *weights = in.findFloats(op.getWeights());
  double *output = out.floats(op.getOutput());
  for (auto [index, label] : llvm::enumerate(in.ints(op.getLabels())))
    output[index] = label < 0 ? 0 : scale * (weights ? weights[index] : 1);
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
  attachEvaluation<nn::CrossEntropyPartOp, evalCrossEntropyPart>(context);
  attachEvaluation<nn::CrossEntropyJoinOp, evalCrossEntropyJoin>(context);
  attachEvaluation<nn::CrossEntropyGradOp, evalCrossEntropyGrad>(context);
  attachEvaluation<nn::SumOp, evalSum>(context);
  attachEvaluation<nn::CountLabelsOp, evalCountLabels>(context);
  attachEvaluation<nn::LossScaleOp, evalLossScale>(context);
  attachEvaluation<nn::TokenWeightsOp, evalTokenWeights>(context);
  attachEvaluation<nn::TakeRowOp, evalTakeRow>(context);
}

} // namespace heddle::eval
