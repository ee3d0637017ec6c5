//===- Linear.cpp - Matrix products and their gradients ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"

using namespace mlir;

namespace heddle::eval {

namespace {

/// Element (i, o) of a weight in either layout.
int64_t weightIndex(int64_t i, int64_t o, int64_t inputs, int64_t outputs,
                    bool transposed) {
  return transposed ? o * inputs + i : i * outputs + o;
}

LogicalResult evalLinear(nn::LinearOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *x = input.floats().data();
  const double *weight = in.floats(op.getWeight());
  const double *bias = in.findFloats(op.getBias());
  double *output = out.floats(op.getOutput());
  int64_t inputs = input.columns();
  int64_t outputs = out[op.getOutput()].columns();
  for (int64_t row = 0; row < input.rows(); ++row)
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = bias ? bias[o] : 0;
      for (int64_t i = 0; i < inputs; ++i)
        sum += x[row * inputs + i] *
               weight[weightIndex(i, o, inputs, outputs, op.getTransposed())];
      output[row * outputs + o] = sum;
    }
  return success();
}

LogicalResult evalAddBias(nn::AddBiasOp op, const Inputs &in, Outputs &out) {
  const double *input = in.floats(op.getInput());
  const double *bias = in.floats(op.getBias());
  Tensor &output = out[op.getOutput()];
  int64_t columns = output.columns();
  for (auto [index, value] : llvm::enumerate(output.mutableFloats()))
    value = input[index] + bias[index % columns];
  return success();
}

LogicalResult evalLinearGradWeight(nn::LinearGradWeightOp op, const Inputs &in,
                                   Outputs &out) {
  if (const Tensor *init = in.find(op.getInit()))
    out[op.getOutput()] = *init;
  const Tensor &input = in[op.getInput()];
  const double *x = input.floats().data();
  const double *grad = in.floats(op.getGrad());
  double *output = out.floats(op.getOutput());
  int64_t inputs = input.columns();
  int64_t outputs = in[op.getGrad()].columns();
  for (int64_t row = 0; row < input.rows(); ++row)
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t o = 0; o < outputs; ++o)
        output[weightIndex(i, o, inputs, outputs, op.getTransposed())] +=
            x[row * inputs + i] * grad[row * outputs + o];
  return success();
}

LogicalResult evalSumRows(nn::SumRowsOp op, const Inputs &in, Outputs &out) {
  if (const Tensor *init = in.find(op.getInit()))
    out[op.getOutput()] = *init;
  const Tensor &input = in[op.getInput()];
  double *output = out.floats(op.getOutput());
  int64_t columns = input.columns();
  for (auto [index, value] : llvm::enumerate(input.floats()))
    output[index % columns] += value;
  return success();
}

} // namespace

void attachLinearEvaluations(MLIRContext &context) {
  attachEvaluation<nn::LinearOp, evalLinear>(context);
  attachEvaluation<nn::AddBiasOp, evalAddBias>(context);
  attachEvaluation<nn::LinearGradWeightOp, evalLinearGradWeight>(context);
  attachEvaluation<nn::SumRowsOp, evalSumRows>(context);
}

} // namespace heddle::eval
