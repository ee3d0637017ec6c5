//===- Elementwise.cpp - Elementwise ops, embeddings, dropout ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of element-wise operations, embeddings, dropout, and
// operations that move elements.
//
//===----------------------------------------------------------------------===//

#include "ScalarProgram.h"
#include "dialects/NN/Scalars.h"
#include "heddle/Eval/ReferenceOps.h"
#include "heddle/runtime/core/Philox.h"
#include <cmath>

using namespace mlir;

namespace heddle::eval {

namespace {

//===----------------------------------------------------------------------===//
// Embeddings and positions
//===----------------------------------------------------------------------===//

/// Calls `body` for each id, with the id's position, and with the index of the
/// row that the id selects in an embedding table. The table may be a shard with
/// `rows` rows. If the shard does not have the row, `body` gets -1.
template <typename OpT>
void forRowsOfTable(
    OpT op, int64_t rows, const Inputs &in,
    llvm::function_ref<void(int64_t position, int64_t row)> body) {
  int64_t first = in.integerOr(op.getFirst(), 0);
  for (auto [position, id] : llvm::enumerate(in.ints(op.getIds()))) {
    bool isHere = id >= first && id < first + rows;
    body(position, isHere ? id - first : -1);
  }
}

LogicalResult evalEmbedding(nn::EmbeddingOp op, const Inputs &in,
                            Outputs &out) {
  const Tensor &table = in[op.getTable()];
  int64_t columns = table.columns();
  double *output = out.floats(op.getOutput());
  // An operation with the operand `first` has only a shard of the table from
  // which ids select rows. If an id is outside of the shard, its row may be in
  // another shard, so that the result is 0. If the table is whole, an id
  // outside of it gives NaN, as in compiled code.
  double otherwise = op.getFirst() ? 0 : std::nan("");
  forRowsOfTable(op, table.rows(), in, [&](int64_t position, int64_t row) {
    for (int64_t c = 0; c < columns; ++c)
      output[position * columns + c] =
          row < 0 ? otherwise : table.floats()[row * columns + c];
  });
  return success();
}

LogicalResult evalEmbeddingGrad(nn::EmbeddingGradOp op, const Inputs &in,
                                Outputs &out) {
  if (const Tensor *init = in.find(op.getInit()))
    out[op.getOutput()] = *init;
  const double *grad = in.floats(op.getGrad());
  int64_t columns = out[op.getOutput()].columns();
  int64_t rows = out[op.getOutput()].rows();
  double *output = out.floats(op.getOutput());
  auto ids = in.ints(op.getIds());
  forRowsOfTable(op, rows, in, [&](int64_t position, int64_t row) {
    bool adds = row >= 0 && op.getPadding() != ids[position];
    for (int64_t c = 0; adds && c < columns; ++c)
      output[row * columns + c] += grad[position * columns + c];
  });
  return success();
}

LogicalResult evalReorder(nn::ReorderOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  auto order = in.ints(op.getOrder());
  int64_t columns = input.columns(), places = order.size();
  double *output = out.floats(op.getOutput());
  for (int64_t row = 0; row < input.rows(); ++row)
    for (auto [c, from] : llvm::enumerate(order))
      output[row * places + c] = from < 0 || from >= columns
                                     ? std::nan("")
                                     : input.floats()[row * columns + from];
  return success();
}

LogicalResult evalPositions(nn::PositionsOp op, const Inputs &in,
                            Outputs &out) {
  Tensor &output = out[op.getOutput()];
  int64_t columns = output.columns();
  int64_t first =
      static_cast<int64_t>(op.getOffset()) + in.integerOr(op.getFirst(), 0);
  for (auto [index, value] : llvm::enumerate(output.mutableInts()))
    value = static_cast<int64_t>(index) % columns + first;
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise functions
//===----------------------------------------------------------------------===//

LogicalResult evalMap(nn::MapOp op, const Inputs &in, Outputs &out) {
  ScalarProgram program(op.getBody().front());
  int64_t elements = out[op.getOutputs()[0]].numElements();
  for (int64_t i = 0; i < elements; ++i) {
    SmallVector<double> arguments;
    for (Value input : op.getInputs()) {
      bool isScalar = in[input].numElements() == 1;
      arguments.push_back(in.floats(input)[isScalar ? 0 : i]);
    }
    for (auto [output, value] :
         llvm::zip(op.getOutputs(), program.run(arguments)))
      out.floats(output)[i] = value;
  }
  return success();
}

/// Applies `function` to each element of the input.
template <typename OpT, typename Function>
LogicalResult mapUnary(OpT op, const Inputs &in, Outputs &out,
                       Function function) {
  const double *input = in.floats(op.getInput());
  for (auto [index, value] :
       llvm::enumerate(out[op.getOutput()].mutableFloats()))
    value = function(input[index]);
  return success();
}

/// Applies `function` to each pair of elements with the same index.
template <typename Function>
LogicalResult mapBinary(Value first, Value second, Value result,
                        const Inputs &in, Outputs &out, Function function) {
  const double *a = in.floats(first);
  const double *b = in.floats(second);
  for (auto [index, value] : llvm::enumerate(out[result].mutableFloats()))
    value = function(a[index], b[index]);
  return success();
}

LogicalResult evalAdd(nn::AddOp op, const Inputs &in, Outputs &out) {
  return mapBinary(op.getLhs(), op.getRhs(), op.getOutput(), in, out,
                   [](double a, double b) { return a + b; });
}

LogicalResult evalMul(nn::MulOp op, const Inputs &in, Outputs &out) {
  return mapBinary(op.getLhs(), op.getRhs(), op.getOutput(), in, out,
                   [](double a, double b) { return a * b; });
}

LogicalResult evalCast(nn::CastOp op, const Inputs &in, Outputs &out) {
  return mapUnary(op, in, out, [](double x) { return x; });
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

LogicalResult evalDropout(nn::DropoutOp op, const Inputs &in, Outputs &out) {
  const double *input = in.floats(op.getInput());
  Tensor &output = out[op.getOutput()];
  DropoutPosition position = {
      in.integer(op.getMicroBatch()), output.numElements(), {}};
  for (auto [number, part] : llvm::enumerate(op.getPart()))
    position.splits.push_back(
        {in.integer(part), (*op.getParts())[number], (*op.getInner())[number]});
  DropoutMask mask(in.ints(op.getRng()), static_cast<uint32_t>(op.getSite()),
                   in.integer(op.getLayer()), position,
                   op.getP().convertToDouble());
  for (auto [index, value] : llvm::enumerate(output.mutableFloats()))
    value = input[index] * mask.factor(index);
  return success();
}

//===----------------------------------------------------------------------===//
// Slices of tensors
//===----------------------------------------------------------------------===//

/// Copies `count` positions of dimension `dim`, from position `first` of `from`
/// to position `at` of `to`. Positions after the end of `from` are copies of
/// its last position.
void copyPositions(const Tensor &from, int64_t first, Tensor &to, int64_t at,
                   int64_t count, int64_t dim) {
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < from.rank(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : from.shape()[d];
  int64_t size = from.shape()[dim], width = to.shape()[dim];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i) {
      int64_t source = (o * size + std::min(first + i, size - 1)) * inner;
      int64_t target = (o * width + at + i) * inner;
      to.copyFrom(from, source, target, inner);
    }
}

LogicalResult evalReshape(nn::ReshapeOp op, const Inputs &in, Outputs &out) {
  const Tensor &input = in[op.getInput()];
  out[op.getOutput()].copyFrom(input, 0, 0, input.numElements());
  return success();
}

LogicalResult evalSlice(nn::SliceOp op, const Inputs &in, Outputs &out) {
  int64_t dim = op.getDim();
  Tensor &output = out[op.getOutput()];
  copyPositions(in[op.getInput()],
                op.getOffset() + in.integerOr(op.getFirst(), 0), output, 0,
                output.shape()[dim], dim);
  return success();
}

LogicalResult evalConcat(nn::ConcatOp op, const Inputs &in, Outputs &out) {
  int64_t dim = op.getDim(), at = 0;
  for (Value input : op.getInputs()) {
    int64_t count = in[input].shape()[dim];
    copyPositions(in[input], 0, out[op.getOutput()], at, count, dim);
    at += count;
  }
  return success();
}

} // namespace

uint64_t DropoutPosition::elementAt(uint64_t index) const {
  uint64_t whole = count, inside = 1;
  for (const Split &split : llvm::reverse(splits)) {
    uint64_t inner = split.inner * inside;
    index = (index / inner * split.parts + split.part) * inner + index % inner;
    inside *= split.parts;
    whole *= split.parts;
  }
  return static_cast<uint64_t>(microBatch) * whole + index;
}

DropoutMask::DropoutMask(llvm::ArrayRef<int64_t> rng, uint32_t site,
                         int64_t layer, const DropoutPosition &position,
                         double p)
    : key(static_cast<uint32_t>(rng[0]) |
          static_cast<uint64_t>(static_cast<uint32_t>(rng[1])) << 32),
      step(static_cast<uint32_t>(rng[2])),
      stream(site + static_cast<uint32_t>(layer) * 0x9E3779B9u),
      threshold(static_cast<uint32_t>(std::floor(p * 4294967296.0))),
      position(position), keepFactor(1 / (1 - p)) {}

double DropoutMask::factor(uint64_t element) const {
  uint64_t index = position.elementAt(element);
  uint32_t word = rt::philox(key, index / 4, step, stream)[index % 4];
  return word >= threshold ? keepFactor : 0;
}

void attachElementwiseEvaluations(MLIRContext &context) {
  attachEvaluation<nn::EmbeddingOp, evalEmbedding>(context);
  attachEvaluation<nn::ReorderOp, evalReorder>(context);
  attachEvaluation<nn::EmbeddingGradOp, evalEmbeddingGrad>(context);
  attachEvaluation<nn::PositionsOp, evalPositions>(context);
  attachEvaluation<nn::AddOp, evalAdd>(context);
  attachEvaluation<nn::MulOp, evalMul>(context);
  attachEvaluation<nn::CastOp, evalCast>(context);
  attachEvaluation<nn::MapOp, evalMap>(context);
  attachEvaluation<nn::DropoutOp, evalDropout>(context);
  attachEvaluation<nn::ReshapeOp, evalReshape>(context);
  attachEvaluation<nn::SliceOp, evalSlice>(context);
  attachEvaluation<nn::ConcatOp, evalConcat>(context);
}

} // namespace heddle::eval
