//===- Groups.cpp - Weights that are quantized in training ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of the operations of NNGroupOps.td. Rounding to few
// bits is computed in f32, because the codes depend on it.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/GroupLayout.h"
#include "heddle/Eval/ReferenceOps.h"
#include "heddle/runtime/core/FakeQuantize.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::eval {

namespace {

/// Calls `body` for each element of the operand that is in a group, with the
/// index of the element and the number of the group.
template <typename OpT>
void forElements(OpT op, const nn::GroupLayout &layout, const Inputs &in,
                 llvm::function_ref<void(int64_t, int64_t)> body) {
  int64_t first = in.integerOr(op.getFirst(), 0);
  int64_t part = in.integerOr(op.getPart(), 0);
  int64_t length = in[op.getInput()].numElements();
  for (const nn::GroupLayout::Tensor &tensor : layout.tensors) {
    int64_t begin = tensor.begin - first, end = begin + tensor.count();
    for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, length);
         ++i)
      if (int64_t group = tensor.groupOf(i - begin, part); group >= 0)
        body(i, group);
  }
}

LogicalResult evalGroupMaxima(nn::GroupMaximaOp op, const Inputs &in,
                              Outputs &out) {
  nn::GroupLayout layout = nn::groupLayoutOf(op);
  const double *input = in.floats(op.getInput());
  auto maxima = out[op.getOutput()].mutableFloats();
  int64_t width = 2 * layout.groups;
  int64_t ranges = static_cast<int64_t>(maxima.size()) / width;
  int64_t range = in[op.getInput()].numElements() / ranges;
  std::fill(maxima.begin(), maxima.end(),
            -std::numeric_limits<double>::infinity());
  auto note = [](double &largest, double x) {
    largest = std::isnan(x) || x > largest ? x : largest;
  };
  forElements(op, layout, in, [&](int64_t i, int64_t group) {
    double *row = maxima.data() + i / range * width;
    note(row[group], input[i]);
    note(row[layout.groups + group], -input[i]);
  });
  return success();
}

LogicalResult evalGroupSums(nn::GroupSumsOp op, const Inputs &in,
                            Outputs &out) {
  const double *input = in.floats(op.getInput());
  const double *above = in.findFloats(op.getAbove());
  double *sums = out.floats(op.getTotals());
  double *counts = out.floats(op.getCounts());
  forElements(op, nn::groupLayoutOf(op), in, [&](int64_t i, int64_t group) {
    double magnitude = std::fabs(input[i]);
    if (above && !(magnitude > above[group]))
      return;
    sums[group] += magnitude;
    ++counts[group];
  });
  return success();
}

LogicalResult evalFakeQuantize(nn::FakeQuantizeOp op, const Inputs &in,
                               Outputs &out) {
  nn::GroupLayout layout = nn::groupLayoutOf(op);
  const double *input = in.floats(op.getInput());
  const double *maxima = in.floats(op.getMaxima());
  const double *means = in.findFloats(op.getMeans());
  const double *levels = in.findFloats(op.getLevels());
  int bits = static_cast<int>(in.number(op.getBits()));
  auto ratio = static_cast<float>(in.number(op.getRatio()));
  SmallVector<rt::GroupQuantizer> groups;
  for (int64_t group = 0; group < layout.groups; ++group)
    groups.emplace_back(
        rt::GroupQuantizer::Group{
            static_cast<float>(maxima[group]),
            static_cast<float>(maxima[layout.groups + group]),
            static_cast<float>(means ? means[group] : 0),
            static_cast<float>(levels ? levels[group] : 0)},
        std::max(bits, means ? 1 : 3), op.getAsymmetric());
  double *output = out.floats(op.getOutput());
  forElements(op, layout, in, [&](int64_t i, int64_t group) {
    output[i] = groups[group].mix(static_cast<float>(input[i]), ratio);
  });
  return success();
}

} // namespace

void attachGroupEvaluations(MLIRContext &context) {
  attachEvaluation<nn::GroupMaximaOp, evalGroupMaxima>(context);
  attachEvaluation<nn::GroupSumsOp, evalGroupSums>(context);
  attachEvaluation<nn::FakeQuantizeOp, evalFakeQuantize>(context);
}

} // namespace heddle::eval
