//===- Signs.cpp - Averages in one bit for each element ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of the operations of NNSignOps.td.
//
//===----------------------------------------------------------------------===//

#include "ScalarProgram.h"
#include "dialects/NN/SignLayout.h"
#include "heddle/Eval/ReferenceOps.h"
#include <cmath>

using namespace mlir;

namespace heddle::eval {

namespace {

using nn::SignLayout;

/// The body is affine in the gradient, so the mean is what it gives for the
/// whole gradient.
LogicalResult evalAverage(nn::AverageOp op, const Inputs &in, Outputs &out) {
  bool updates = in.number(op.getCondition()) != 0;
  ScalarProgram program(op.getBody().front());
  OperandRange read =
      op->getOperands().take_front(op.getBody().getNumArguments());
  int64_t count = in[op.getState()].numElements();
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<double> arguments;
    for (Value operand : read)
      arguments.push_back(in.floats(operand)[in[operand].rank() ? i : 0]);
    out.floats(op.getOutput())[i] =
        updates ? program.run(arguments)[0] : in.floats(op.getState())[i];
  }
  return success();
}

/// A range of elements that have the same scale.
struct Range {
  int64_t element; ///< The first element in the rows.
  int64_t bit;     ///< The first bit in the words.
  int64_t scale;   ///< The index of the scale.
  int64_t count;   ///< The elements that are no padding.
};

/// The chunks of `rows` rows of `stride` elements. With `isChunked` row r is
/// chunk `first` + r of each tensor, otherwise it has all chunks.
SmallVector<Range> rangesOf(const SignLayout &layout, int64_t rows,
                            int64_t stride, bool isChunked, int64_t first) {
  SmallVector<Range> ranges;
  auto scales = static_cast<int64_t>(layout.tensors.size());
  int64_t chunks = isChunked ? 1 : layout.parts;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (auto [number, tensor] : llvm::enumerate(layout.tensors)) {
        int64_t inRow =
            isChunked ? tensor.offset : tensor.begin + chunk * tensor.chunk;
        ranges.push_back(
            {row * stride + inRow,
             (row * chunks + chunk) * layout.elements + tensor.offset,
             row * scales + static_cast<int64_t>(number),
             tensor.countIn(isChunked ? first + row : chunk)});
      }
  return ranges;
}

LogicalResult evalSignScales(nn::SignScalesOp op, const Inputs &in,
                             Outputs &out) {
  SignLayout layout = nn::signLayoutOf(op);
  const double *x = in.floats(op.getInput());
  double *scales = out.floats(op.getScales());
  int64_t count = out[op.getScales()].numElements();
  int64_t rows = count / static_cast<int64_t>(layout.tensors.size());
  SmallVector<double> sums(count, 0);
  SmallVector<int64_t> counts(count, 0);
  for (const Range &range :
       rangesOf(layout, rows, in[op.getInput()].numElements() / rows,
                op.getChunked(), in.integerOr(op.getFirst(), 0))) {
    counts[range.scale] += range.count;
    for (int64_t i = 0; i < range.count; ++i)
      sums[range.scale] += x[range.element + i] * x[range.element + i];
  }
  bool updates = in.number(op.getCondition()) != 0;
  for (int64_t i = 0; i < count; ++i)
    scales[i] = updates && counts[i] > 0
                    ? std::sqrt(sums[i] / static_cast<double>(counts[i]))
                    : 0;
  return success();
}

LogicalResult evalJoinScales(nn::JoinScalesOp op, const Inputs &in,
                             Outputs &out) {
  SignLayout layout = nn::signLayoutOf(op);
  const double *scales = in.floats(op.getScales());
  double *squares = out.floats(op.getSquares());
  double *elements = out.floats(op.getElements());
  int64_t rows = out[op.getSquares()].numElements();
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  for (const Range &range :
       rangesOf(layout, rows, /*stride=*/0, op.getChunked(),
                in.integerOr(op.getFirst(), 0))) {
    int64_t row = range.scale / tensors;
    auto count = static_cast<double>(range.count);
    squares[row] += scales[range.scale] * scales[range.scale] * count;
    elements[row] += count;
  }
  return success();
}

/// The number of scales of a row: one for each tensor, or one for all.
int64_t scalesOfRow(Value scales) {
  return cast<RankedTensorType>(scales.getType()).getDimSize(1);
}

/// The index, in scales that may be one for all tensors of a row, of the scale
/// with the index `scale` among those of each tensor.
int64_t scaleAt(int64_t row, int64_t tensor, int64_t perRow) {
  return row * perRow + (perRow == 1 ? 0 : tensor);
}

bool bitAt(ArrayRef<int64_t> words, int64_t bit) {
  return (words[bit / SignLayout::bitsPerWord] >>
          (bit % SignLayout::bitsPerWord)) &
         1;
}

LogicalResult evalPackSigns(nn::PackSignsOp op, const Inputs &in,
                            Outputs &out) {
  SignLayout layout = nn::signLayoutOf(op);
  const double *x = in.floats(op.getInput());
  const double *scales = in.floats(op.getScales());
  double *error = out.floats(op.getError());
  auto words = out[op.getWords()].mutableInts();
  int64_t rows = cast<RankedTensorType>(op.getWords().getType()).getDimSize(0);
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  for (const Range &range :
       rangesOf(layout, rows, in[op.getInput()].numElements() / rows,
                op.getChunked(), in.integerOr(op.getFirst(), 0))) {
    double scale = scales[scaleAt(range.scale / tensors, range.scale % tensors,
                                  scalesOfRow(op.getScales()))];
    for (int64_t i = 0; i < range.count; ++i) {
      int64_t element = range.element + i, bit = range.bit + i;
      bool isPositive = x[element] >= 0;
      error[element] = x[element] - (isPositive ? scale : -scale);
      auto &word = words[bit / SignLayout::bitsPerWord];
      word = static_cast<int32_t>(static_cast<uint32_t>(word) |
                                  uint32_t(isPositive)
                                      << (bit % SignLayout::bitsPerWord));
    }
  }
  return success();
}

LogicalResult evalMeanSigns(nn::MeanSignsOp op, const Inputs &in,
                            Outputs &out) {
  SignLayout layout = nn::signLayoutOf(op);
  ArrayRef<int64_t> words = in.ints(op.getWords());
  const double *scales = in.floats(op.getScales());
  const double *error = in.floats(op.getError());
  double *y = out.floats(op.getOutput());
  int64_t rows = cast<RankedTensorType>(op.getWords().getType()).getDimSize(1);
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  for (const Range &range :
       rangesOf(layout, rows, layout.elements, /*isChunked=*/true,
                in.integerOr(op.getFirst(), 0)))
    for (int64_t i = 0; i < range.count; ++i) {
      double sum = 0;
      for (int64_t sender = 0; sender < layout.parts; ++sender) {
        double scale = scales[scaleAt(sender, range.scale % tensors,
                                      scalesOfRow(op.getScales()))];
        int64_t bit = sender * rows * layout.elements + range.bit + i;
        sum += bitAt(words, bit) ? scale : -scale;
      }
      y[range.element + i] =
          error[range.element + i] + sum / static_cast<double>(layout.parts);
    }
  return success();
}

LogicalResult evalUnpackSigns(nn::UnpackSignsOp op, const Inputs &in,
                              Outputs &out) {
  SignLayout layout = nn::signLayoutOf(op);
  ArrayRef<int64_t> words = in.ints(op.getWords());
  const double *scales = in.floats(op.getScales());
  double *output = out.floats(op.getOutput());
  if (in.number(op.getCondition()) == 0) {
    llvm::copy(in[op.getBefore()].floats(), output);
    return success();
  }
  for (const Range &range : rangesOf(layout, /*rows=*/1, /*stride=*/0,
                                     /*isChunked=*/false, /*first=*/0))
    for (int64_t i = 0; i < range.count; ++i) {
      int64_t chunk = range.bit / layout.elements;
      double scale =
          scales[scaleAt(chunk, range.scale, scalesOfRow(op.getScales()))];
      if (op.getFactors())
        scale *= in.floats(op.getFactors())[range.scale];
      output[range.element + i] = bitAt(words, range.bit + i) ? scale : -scale;
    }
  return success();
}

} // namespace

void attachSignEvaluations(MLIRContext &context) {
  attachEvaluation<nn::AverageOp, evalAverage>(context);
  attachEvaluation<nn::SignScalesOp, evalSignScales>(context);
  attachEvaluation<nn::JoinScalesOp, evalJoinScales>(context);
  attachEvaluation<nn::PackSignsOp, evalPackSigns>(context);
  attachEvaluation<nn::MeanSignsOp, evalMeanSigns>(context);
  attachEvaluation<nn::UnpackSignsOp, evalUnpackSigns>(context);
}

} // namespace heddle::eval
