//===- Norms.cpp - Layer and RMS norm and their gradients -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of layer norm, RMS norm and their gradients.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"
#include <cmath>

using namespace mlir;

namespace heddle::eval {

namespace {

LogicalResult evalLayerNorm(nn::LayerNormOp op, const Inputs &in,
                            Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *weight = in.floats(op.getWeight());
  const double *bias = in.floats(op.getBias());
  double *output = out.floats(op.getOutput());
  double *means = out.floats(op.getMean());
  double *rstds = out.floats(op.getRstd());
  int64_t columns = input.columns();
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double *x = input.floats().data() + row * columns;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < columns; ++c)
      mean += x[c] / columns;
    for (int64_t c = 0; c < columns; ++c)
      variance += (x[c] - mean) * (x[c] - mean) / columns;
    double rstd = 1 / std::sqrt(variance + op.getEps().convertToDouble());
    for (int64_t c = 0; c < columns; ++c)
      output[row * columns + c] = (x[c] - mean) * rstd * weight[c] + bias[c];
    means[row] = mean;
    rstds[row] = rstd;
  }
  return success();
}

LogicalResult evalLayerNormGradInput(nn::LayerNormGradInputOp op,
                                     const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *grad = in.floats(op.getGrad());
  const double *weight = in.floats(op.getWeight());
  const double *means = in.floats(op.getMean());
  const double *rstds = in.floats(op.getRstd());
  double *output = out.floats(op.getOutput());
  int64_t columns = input.columns();
  for (int64_t row = 0; row < input.rows(); ++row) {
    auto normalized = [&](int64_t c) {
      return (input.floats()[row * columns + c] - means[row]) * rstds[row];
    };
    auto weighted = [&](int64_t c) {
      return grad[row * columns + c] * weight[c];
    };
    double meanOfGrad = 0, meanOfProduct = 0;
    for (int64_t c = 0; c < columns; ++c) {
      meanOfGrad += weighted(c) / columns;
      meanOfProduct += weighted(c) * normalized(c) / columns;
    }
    for (int64_t c = 0; c < columns; ++c)
      output[row * columns + c] = rstds[row] * (weighted(c) - meanOfGrad -
                                                normalized(c) * meanOfProduct);
  }
  return success();
}

LogicalResult evalLayerNormGradWeight(nn::LayerNormGradWeightOp op,
                                      const Inputs &in, Outputs &out) {
  if (const Tensor *init = in.find(op.getWeightInit()))
    out[op.getWeightGrad()] = *init;
  if (const Tensor *init = in.find(op.getBiasInit()))
    out[op.getBiasGrad()] = *init;
  const Tensor &input = in[op.getInput()];
  const double *grad = in.floats(op.getGrad());
  const double *means = in.floats(op.getMean());
  const double *rstds = in.floats(op.getRstd());
  double *weightGrad = out.floats(op.getWeightGrad());
  double *biasGrad = out.floats(op.getBiasGrad());
  int64_t columns = input.columns();
  for (int64_t row = 0; row < input.rows(); ++row)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t index = row * columns + c;
      weightGrad[c] +=
          grad[index] * (input.floats()[index] - means[row]) * rstds[row];
      biasGrad[c] += grad[index];
    }
  return success();
}

LogicalResult evalRmsNorm(nn::RmsNormOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *weight = in.floats(op.getWeight());
  double *output = out.floats(op.getOutput());
  double *rstds = out.floats(op.getRstd());
  int64_t columns = input.columns();
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double *x = input.floats().data() + row * columns;
    double meanOfSquares = 0;
    for (int64_t c = 0; c < columns; ++c)
      meanOfSquares += x[c] * x[c] / columns;
    double rstd = 1 / std::sqrt(meanOfSquares + op.getEps().convertToDouble());
    for (int64_t c = 0; c < columns; ++c)
      output[row * columns + c] = x[c] * rstd * weight[c];
    rstds[row] = rstd;
  }
  return success();
}

LogicalResult evalRmsNormGradInput(nn::RmsNormGradInputOp op, const Inputs &in,
                                   Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *grad = in.floats(op.getGrad());
  const double *weight = in.floats(op.getWeight());
  const double *rstds = in.floats(op.getRstd());
  double *output = out.floats(op.getOutput());
  int64_t columns = input.columns();
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double *x = input.floats().data() + row * columns;
    const double *g = grad + row * columns;
    double rstd = rstds[row], meanOfProduct = 0;
    for (int64_t c = 0; c < columns; ++c)
      meanOfProduct += g[c] * weight[c] * x[c] * rstd / columns;
    for (int64_t c = 0; c < columns; ++c)
      output[row * columns + c] =
          rstd * (g[c] * weight[c] - x[c] * rstd * meanOfProduct);
  }
  return success();
}

LogicalResult evalRmsNormGradWeight(nn::RmsNormGradWeightOp op,
                                    const Inputs &in, Outputs &out) {
  if (const Tensor *init = in.find(op.getInit()))
    out[op.getOutput()] = *init;
  const Tensor &input = in[op.getInput()];
  const double *grad = in.floats(op.getGrad());
  const double *rstds = in.floats(op.getRstd());
  double *output = out.floats(op.getOutput());
  int64_t columns = input.columns();
  for (auto [index, x] : llvm::enumerate(input.floats()))
    output[index % columns] += grad[index] * x * rstds[index / columns];
  return success();
}

} // namespace

void attachNormEvaluations(MLIRContext &context) {
  attachEvaluation<nn::LayerNormOp, evalLayerNorm>(context);
  attachEvaluation<nn::LayerNormGradInputOp, evalLayerNormGradInput>(context);
  attachEvaluation<nn::LayerNormGradWeightOp, evalLayerNormGradWeight>(context);
  attachEvaluation<nn::RmsNormOp, evalRmsNorm>(context);
  attachEvaluation<nn::RmsNormGradInputOp, evalRmsNormGradInput>(context);
  attachEvaluation<nn::RmsNormGradWeightOp, evalRmsNormGradWeight>(context);
}

} // namespace heddle::eval
