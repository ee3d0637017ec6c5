//===- Optimizer.cpp - Gradient norm, clipping, updates ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of gradient norms, clipping and updates.
//
//===----------------------------------------------------------------------===//

#include "ScalarProgram.h"
#include "heddle/Eval/ReferenceOps.h"
#include <cmath>
#include <limits>

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

LogicalResult evalUpdate(nn::UpdateOp op, const Inputs &in, Outputs &out) {
  const double *condition = in.findFloats(op.getCondition());
  bool updates = !condition || *condition != 0;
  ScalarProgram program(op.getBody().front());
  unsigned numArguments = op.getBody().getNumArguments();
  SmallVector<const double *> old = {in.floats(op.getParameter())};
  for (Value state : op.getStates())
    old.push_back(in.floats(state));
  int64_t count = in[op.getParameter()].numElements();
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<double> arguments, results;
    for (Value operand : op->getOperands().take_front(numArguments))
      arguments.push_back(in.floats(operand)[in[operand].rank() ? i : 0]);
    if (updates)
      results = program.run(arguments);
    else
      for (const double *values : old)
        results.push_back(values[i]);
    if (op.getCopy())
      results.push_back(results[0]);
    for (auto [output, value] : llvm::zip(op.getOutputs(), results))
      out.floats(output)[i] = value;
  }
  return success();
}

LogicalResult evalAdvancePower(nn::AdvancePowerOp op, const Inputs &in,
                               Outputs &out) {
  const double *condition = in.findFloats(op.getCondition());
  double next = in.number(op.getPower());
  if (!condition || *condition != 0)
    next *= op.getFactor().convertToDouble();
  *out.floats(op.getNext()) = next;
  *out.floats(op.getCorrection()) = 1 - next;
  return success();
}

LogicalResult evalCountUpdate(nn::CountUpdateOp op, const Inputs &in,
                              Outputs &out) {
  const double *condition = in.findFloats(op.getCondition());
  bool updates = !condition || *condition != 0;
  *out.floats(op.getNext()) = in.number(op.getCount()) + (updates ? 1 : 0);
  return success();
}

LogicalResult evalTakeRate(nn::TakeRateOp op, const Inputs &in, Outputs &out) {
  double count = in.number(op.getCount());
  if (!(count >= 0))
    return op.emitError("count ") << count << " is negative";
  int64_t rates = in[op.getRates()].numElements();
  *out.floats(op.getRate()) =
      in.floats(op.getRates())[static_cast<int64_t>(count) % rates];
  return success();
}

LogicalResult evalAdvanceLossScale(nn::AdvanceLossScaleOp op, const Inputs &in,
                                   Outputs &out) {
  constexpr double most = 0x1p127;
  double scale = in.number(op.getScale()), left = in.number(op.getLeft());
  double steps = in.number(op.getSteps()), ended = in.number(op.getEnded());
  auto window = static_cast<double>(op.getWindow());
  auto hysteresis = static_cast<double>(op.getHysteresis());
  // Kernels compare the scale with a least scale that is rounded to f32.
  double least = static_cast<float>(op.getLeast().convertToDouble());
  bool overflows = llvm::any_of(op.getChecked(), [&](Value value) {
    return !std::isfinite(in.number(value));
  });
  *out.floats(op.getUpdates()) = ended == 0 && !overflows ? 1 : 0;
  if (ended == 0 && overflows) {
    if (left > 1)
      --left;
    else if (scale > least)
      scale = std::max(scale / 2, least);
    else
      ended = 1;
    if (ended == 0)
      steps = 0;
  } else if (ended == 0) {
    bool doubles = window > 0 && steps >= window;
    if (doubles)
      scale = std::min(2 * scale, most);
    if (doubles || op.getConsecutive())
      left = hysteresis;
    if (window > 0)
      steps = doubles ? 1 : steps + 1;
  }
  *out.floats(op.getNextScale()) = scale;
  *out.floats(op.getNextLeft()) = left;
  *out.floats(op.getNextSteps()) = steps;
  *out.floats(op.getNextEnded()) = ended;
  return success();
}

/// The operand of `op` is a range of a flat tensor that is divided into
/// segments, one for each tensor of a bucket. Calls `body` for each element of
/// the operand that is in a segment, with the index of the element and the
/// index of the segment.
template <typename OpT>
void forSegments(OpT op, const Inputs &in,
                 llvm::function_ref<void(int64_t, int64_t)> body) {
  int64_t begin = -in.integerOr(op.getFirst(), 0);
  int64_t length = in[op.getInput()].numElements();
  for (auto [segment, size] : llvm::enumerate(nn::segmentsOf(op))) {
    for (int64_t i = std::max<int64_t>(begin, 0);
         i < std::min(begin + size, length); ++i)
      body(i, static_cast<int64_t>(segment));
    begin += size;
  }
}

LogicalResult evalSegmentSums(nn::SegmentSumsOp op, const Inputs &in,
                              Outputs &out) {
  const double *input = in.floats(op.getInput());
  double *sums = out.floats(op.getOutput());
  forSegments(op, in, [&](int64_t i, int64_t segment) {
    sums[segment] += input[i] * input[i];
  });
  return success();
}

LogicalResult evalScaleSegments(nn::ScaleSegmentsOp op, const Inputs &in,
                                Outputs &out) {
  const double *input = in.floats(op.getInput());
  const double *factors = in.floats(op.getFactors());
  double *output = out.floats(op.getOutput());
  forSegments(op, in, [&](int64_t i, int64_t segment) {
    output[i] = input[i] * factors[segment];
  });
  return success();
}

/// The larger number; NaN if one of them is, as in kernels.
double largerOf(double a, double b) { return std::isnan(a) || a > b ? a : b; }

LogicalResult evalSegmentMaxima(nn::SegmentMaximaOp op, const Inputs &in,
                                Outputs &out) {
  const double *input = in.floats(op.getInput());
  double *maxima = out.floats(op.getOutput());
  int64_t length = in[op.getInput()].numElements();
  int64_t count = out[op.getOutput()].numElements();
  SmallVector<int64_t> counts = nn::segmentCountsOf(op);
  auto segments = static_cast<int64_t>(counts.size());
  int64_t range = length / (count / segments);
  std::fill_n(maxima, count, -std::numeric_limits<double>::infinity());
  int64_t begin = -in.integerOr(op.getFirst(), 0);
  for (auto [segment, elements] : llvm::enumerate(counts)) {
    for (int64_t i = std::max<int64_t>(begin, 0);
         i < std::min(begin + elements, length); ++i) {
      double &largest =
          maxima[i / range * segments + static_cast<int64_t>(segment)];
      largest = largerOf(largest, input[i]);
    }
    begin += nn::paddedElements(elements);
  }
  return success();
}

LogicalResult evalMaxRows(nn::MaxRowsOp op, const Inputs &in, Outputs &out) {
  double *output = out.floats(op.getOutput());
  int64_t columns = out[op.getOutput()].numElements();
  for (auto [index, value] : llvm::enumerate(in[op.getInput()].floats())) {
    auto at = static_cast<int64_t>(index);
    double &largest = output[at % columns];
    largest = at < columns ? value : largerOf(largest, value);
  }
  return success();
}

LogicalResult evalReadNumbers(nn::ReadNumbersOp op, const Inputs &in,
                              Outputs &out) {
  const double *input = in.floats(op.getInput());
  double *output = out.floats(op.getOutput());
  for (int64_t i = 0; i < out[op.getOutput()].numElements(); ++i)
    output[i] = input[i * nn::paddedElements(1)];
  return success();
}

LogicalResult evalWriteNumbers(nn::WriteNumbersOp op, const Inputs &in,
                               Outputs &out) {
  const double *numbers = in.floats(op.getNumbers());
  double *output = out.floats(op.getOutput());
  if (in.number(op.getCondition()) == 0) {
    llvm::copy(in[op.getBefore()].floats(), output);
    return success();
  }
  for (int64_t i = 0; i < in[op.getNumbers()].numElements(); ++i)
    output[i * nn::paddedElements(1)] = numbers[i];
  return success();
}

} // namespace

void attachOptimizerEvaluations(MLIRContext &context) {
  attachEvaluation<nn::FillOp, evalFill>(context);
  attachEvaluation<nn::SquareSumsOp, evalSquareSums>(context);
  attachEvaluation<nn::GlobalNormOp, evalGlobalNorm>(context);
  attachEvaluation<nn::UpdateOp, evalUpdate>(context);
  attachEvaluation<nn::AdvancePowerOp, evalAdvancePower>(context);
  attachEvaluation<nn::CountUpdateOp, evalCountUpdate>(context);
  attachEvaluation<nn::TakeRateOp, evalTakeRate>(context);
  attachEvaluation<nn::AdvanceLossScaleOp, evalAdvanceLossScale>(context);
  attachEvaluation<nn::SegmentSumsOp, evalSegmentSums>(context);
  attachEvaluation<nn::ScaleSegmentsOp, evalScaleSegments>(context);
  attachEvaluation<nn::SegmentMaximaOp, evalSegmentMaxima>(context);
  attachEvaluation<nn::MaxRowsOp, evalMaxRows>(context);
  attachEvaluation<nn::ReadNumbersOp, evalReadNumbers>(context);
  attachEvaluation<nn::WriteNumbersOp, evalWriteNumbers>(context);
}

} // namespace heddle::eval
