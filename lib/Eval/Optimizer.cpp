//===- Optimizer.cpp - Norm, clipping, AdamW --------------------*- C++ -*-===//
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

LogicalResult evalFill(nn::FillOp op, const Inputs &, Outputs &out) {
  for (double &value : out[op.getOutput()].mutableFloats())
    value = op.getValue().convertToDouble();
  return success();
}

LogicalResult evalSquareSums(nn::SquareSumsOp op, const Inputs &in,
                             Outputs &out) {
  double *sums = out.floats(op.getOutput());
  for (auto [index, value] : llvm::enumerate(in[op.getInput()].floats()))
    sums[index / nn::SquareSumsOp::blockSize] += value * value;
  return success();
}

LogicalResult evalGlobalNorm(nn::GlobalNormOp op, const Inputs &in,
                             Outputs &out) {
  double sum = 0;
  for (Value input : op.getInputs())
    for (double value : in[input].floats())
      sum += op.getSummed() ? value : value * value;
  *out.floats(op.getOutput()) = std::sqrt(sum);
  return success();
}

LogicalResult evalClipCoefficient(nn::ClipCoefficientOp op, const Inputs &in,
                                  Outputs &out) {
  double maxNorm = op.getMaxNorm().convertToDouble();
  *out.floats(op.getOutput()) =
      std::min(1.0, maxNorm / (in.number(op.getNorm()) + 1e-6));
  return success();
}

LogicalResult evalAdamW(nn::AdamWOp op, const Inputs &in, Outputs &out) {
  const double *parameter = in.floats(op.getParameter());
  const double *grad = in.floats(op.getGrad());
  const double *expAvg = in.floats(op.getExpAvg());
  const double *expAvgSq = in.floats(op.getExpAvgSq());
  const double *clip = in.findFloats(op.getClip());
  double lr = in.number(op.getLr());
  double correction1 = in.number(op.getBiasCorrection1());
  double correction2 = in.number(op.getBiasCorrection2());
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double eps = op.getEps().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  double *newParameter = out.floats(op.getNewParameter());
  double *newExpAvg = out.floats(op.getNewExpAvg());
  double *newExpAvgSq = out.floats(op.getNewExpAvgSq());
  const double *condition = in.findFloats(op.getCondition());
  int64_t count = in[op.getParameter()].numElements();
  for (int64_t i = 0; i < count; ++i) {
    if (condition && *condition == 0) {
      newParameter[i] = parameter[i];
      newExpAvg[i] = expAvg[i];
      newExpAvgSq[i] = expAvgSq[i];
      continue;
    }
    double p = parameter[i];
    double g = (clip ? *clip : 1) * grad[i];
    if (!op.getDecoupled())
      g += decay * p;
    double m = beta1 * expAvg[i] + (1 - beta1) * g;
    double v = beta2 * expAvgSq[i] + (1 - beta2) * g * g;
    if (op.getDecoupled())
      p *= 1 - lr * decay;
    newParameter[i] = p - lr / correction1 * m /
                              (std::sqrt(v) / std::sqrt(correction2) + eps);
    newExpAvg[i] = m;
    newExpAvgSq[i] = v;
  }
  if (Value copy = op.getCopy())
    llvm::copy(out[op.getNewParameter()].floats(),
               out[copy].mutableFloats().begin());
  return success();
}

} // namespace

void attachOptimizerEvaluations(MLIRContext &context) {
  attachEvaluation<nn::FillOp, evalFill>(context);
  attachEvaluation<nn::SquareSumsOp, evalSquareSums>(context);
  attachEvaluation<nn::GlobalNormOp, evalGlobalNorm>(context);
  attachEvaluation<nn::ClipCoefficientOp, evalClipCoefficient>(context);
  attachEvaluation<nn::AdamWOp, evalAdamW>(context);
}

} // namespace heddle::eval
