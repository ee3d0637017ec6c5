//===- Linear.cpp - Matrix products and their gradients ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reference evaluations of matrix products and of their gradients, also for
// packed weights (quantized, or in a layout that kernels read).
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"

using namespace mlir;

namespace heddle::eval {

namespace {

/// The index of the element for input `i` and output `o` of a weight, which is
/// stored as [inputs, outputs] or transposed.
int64_t weightIndex(int64_t i, int64_t o, int64_t inputs, int64_t outputs,
                    bool transposed) {
  return transposed ? o * inputs + i : i * outputs + o;
}

LogicalResult evalLinear(nn::LinearOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *x = input.floats().data();
  const double *weight = in.floats(op.getWeight());
  const double *bias = in.findFloats(op.getBias());
  const double *init = in.findFloats(op.getInit());
  double *output = out.floats(op.getOutput());
  int64_t inputs = input.columns();
  int64_t outputs = out[op.getOutput()].columns();
  for (int64_t row = 0; row < input.rows(); ++row)
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = bias ? bias[o] : init ? init[row * outputs + o] : 0;
      for (int64_t i = 0; i < inputs; ++i)
        sum += x[row * inputs + i] *
               weight[weightIndex(i, o, inputs, outputs, op.getTransposed())];
      output[row * outputs + o] = sum;
    }
  return success();
}

/// A packed weight (quantized, or in a layout that kernels read): the operands
/// of nn.packed_linear that describe it.
struct PackedWeight {
  PackedWeight(nn::PackedLinearOp op, const Inputs &in)
      : words(in[op.getWeight()]), packed(op.getPacked()),
        scales(in.findFloats(op.getScales())),
        zeros(in.findFloats(op.getZeros())), groups(op.getGroups()) {}

  /// The value for input `i` and output `o` of the weight; for a quantized
  /// weight, its code.
  double value(int64_t i, int64_t o) const {
    int64_t width = packed.block().outputs, perWord = packed.perWord();
    int64_t word = o / width * packed.panelWords() +
                   packed.indexInPanel(o % width, packed.wordOf(i));
    int64_t inWord = i % packed.groupLength() % perWord;
    if (groups == 0)
      return words.floats()[word * perWord + inWord];
    int64_t bits = packed.bits;
    int64_t above = 32 - bits - plan::PackedWeight::bitOf(bits, inWord);
    auto high = static_cast<uint32_t>(words.ints()[word]) << above;
    return static_cast<int32_t>(high) >> (32 - bits);
  }
  /// Returns the index of the scale that output `o` has in a quantization group
  /// of inputs. Zero points have the same index.
  int64_t groupIndex(int64_t group, int64_t o) const {
    int64_t width = packed.block().outputs;
    return (o / width * groups + group) * width + o % width;
  }

  const Tensor &words;
  plan::PackedWeight packed;
  const double *scales, *zeros;
  int64_t groups;
};

/// Rounds a row of activations to int8 codes, and multiplies the codes by their
/// scales again. Each quantization group of the weight is divided into blocks
/// of `block` inputs, and the inputs of a block share a scale. A scale is
/// rounded to f32 before it is used, because it decides which code is nearest
/// to a value.
void roundRow(std::vector<double> &x, int64_t groups, int64_t block) {
  constexpr float most = 127, least = 0x1p-100F;
  auto inputs = static_cast<int64_t>(x.size()), length = inputs / groups;
  for (int64_t first = 0; first < inputs;) {
    int64_t end = std::min(first + block, (first / length + 1) * length);
    float largest = least;
    for (int64_t i = first; i < end; ++i)
      largest = std::max(largest, static_cast<float>(std::abs(x[i])));
    float scale = largest / most, factor = most / largest;
    for (; first < end; ++first)
      x[first] = scale * std::nearbyint(static_cast<float>(x[first]) * factor);
  }
}

LogicalResult evalPackedLinear(nn::PackedLinearOp op, const Inputs &in,
                               Outputs &out) {
  const Tensor &input = in[op.getInput()];
  const double *x = input.floats().data();
  PackedWeight weight(op, in);
  const double *bias = in.findFloats(op.getBias());
  double *output = out.floats(op.getOutput());
  int64_t inputs = input.columns();
  int64_t outputs = out[op.getOutput()].columns();
  for (int64_t row = 0; row < input.rows(); ++row) {
    std::vector<double> of(x + row * inputs, x + (row + 1) * inputs);
    if (std::optional<uint64_t> block = op.getInputBlock())
      roundRow(of, weight.groups, static_cast<int64_t>(*block));
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = bias ? bias[o] : 0;
      for (int64_t i = 0; i < inputs; ++i) {
        double w = weight.value(i, o);
        if (weight.groups > 0) {
          int64_t at = weight.groupIndex(i / weight.packed.groupLength(), o);
          w = weight.scales[at] * (w - (weight.zeros ? weight.zeros[at] : 0));
        }
        sum += of[i] * w;
      }
      output[row * outputs + o] = sum;
    }
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
  attachEvaluation<nn::PackedLinearOp, evalPackedLinear>(context);
  attachEvaluation<nn::AddBiasOp, evalAddBias>(context);
  attachEvaluation<nn::LinearGradWeightOp, evalLinearGradWeight>(context);
  attachEvaluation<nn::SumRowsOp, evalSumRows>(context);
}

} // namespace heddle::eval
