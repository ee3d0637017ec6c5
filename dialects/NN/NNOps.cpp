//===- NNOps.cpp - Verifiers of the nn operations -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle::nn;

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.cpp.inc"

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// `value` must have the leading dimensions of `like` and then `last`.
static LogicalResult verifyShape(Operation *op, Value value,
                                 ArrayRef<int64_t> shape, StringRef what) {
  if (tensorOf(value).getShape() == shape)
    return success();
  auto diagnostic = op->emitOpError(what) << " has shape [";
  llvm::interleaveComma(tensorOf(value).getShape(), diagnostic);
  diagnostic << "], expected [";
  llvm::interleaveComma(shape, diagnostic);
  return diagnostic << "]";
}

static SmallVector<int64_t> withLast(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> result(shape.drop_back());
  result.push_back(last);
  return result;
}

static SmallVector<int64_t> append(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> result(shape);
  result.push_back(last);
  return result;
}

LogicalResult EmbeddingOp::verify() {
  if (tensorOf(getTable()).getRank() != 2)
    return emitOpError("needs a table of rank 2, got ") << getTable().getType();
  return verifyShape(
      *this, getOutput(),
      append(tensorOf(getIds()).getShape(), tensorOf(getTable()).getDimSize(1)),
      "output");
}

LogicalResult EmbeddingGradOp::verify() {
  if (getInit() && getInit().getType() != getOutput().getType())
    return emitOpError("init has another type than the output");
  return verifyShape(*this, getGrad(),
                     append(tensorOf(getIds()).getShape(),
                            tensorOf(getOutput()).getDimSize(1)),
                     "grad");
}

LogicalResult CastOp::verify() {
  return verifyShape(*this, getOutput(), tensorOf(getInput()).getShape(),
                     "output");
}

LogicalResult DropoutOp::verify() {
  double p = getP().convertToDouble();
  if (p < 0 || p >= 1)
    return emitOpError("has probability ") << p << "; it must be in [0, 1)";
  if (getInput().getType() != getOutput().getType())
    return emitOpError("changes the type of its input");
  return verifyShape(*this, getRng(), {4}, "rng");
}

LogicalResult LinearOp::verify() {
  auto weight = tensorOf(getWeight());
  if (weight.getRank() != 2)
    return emitOpError("needs a weight of rank 2, got ") << weight;
  int64_t in = weight.getDimSize(getTransposed() ? 1 : 0);
  int64_t out = weight.getDimSize(getTransposed() ? 0 : 1);
  auto input = tensorOf(getInput());
  if (input.getRank() < 1 || input.getShape().back() != in)
    return emitOpError("input has ")
           << (input.getRank() ? input.getShape().back() : 0)
           << " features, the weight takes " << in;
  if (getBias() && failed(verifyShape(*this, getBias(), {out}, "bias")))
    return failure();
  return verifyShape(*this, getOutput(), withLast(input.getShape(), out),
                     "output");
}

LogicalResult LinearGradWeightOp::verify() {
  int64_t in = tensorOf(getInput()).getShape().back();
  int64_t out = tensorOf(getGrad()).getShape().back();
  if (tensorOf(getInput()).getShape().drop_back() !=
      tensorOf(getGrad()).getShape().drop_back())
    return emitOpError("input and grad differ in their rows");
  if (getInit() && getInit().getType() != getOutput().getType())
    return emitOpError("init has another type than the output");
  SmallVector<int64_t> shape = {in, out};
  if (getTransposed())
    shape = {out, in};
  return verifyShape(*this, getOutput(), shape, "output");
}

LogicalResult SumRowsOp::verify() {
  if (getInit() && getInit().getType() != getOutput().getType())
    return emitOpError("init has another type than the output");
  return verifyShape(*this, getOutput(),
                     {tensorOf(getInput()).getShape().back()}, "output");
}

LogicalResult LayerNormOp::verify() {
  auto input = tensorOf(getInput());
  SmallVector<int64_t> features = {input.getShape().back()};
  if (failed(verifyShape(*this, getWeight(), features, "weight")) ||
      failed(verifyShape(*this, getBias(), features, "bias")) ||
      failed(verifyShape(*this, getOutput(), input.getShape(), "output")))
    return failure();
  ArrayRef<int64_t> rows = input.getShape().drop_back();
  if (failed(verifyShape(*this, getMean(), rows, "mean")))
    return failure();
  return verifyShape(*this, getRstd(), rows, "rstd");
}

/// Shape rules that attention shares with its gradient.
template <typename OpT>
static LogicalResult verifyAttention(OpT op, Value output, Value lse) {
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads)
    return op.emitOpError("has ")
           << heads << " heads and " << kvHeads
           << " key/value heads; the first must be a multiple of the second";
  auto out = tensorOf(output);
  if (out.getRank() != 3 || out.getDimSize(2) % heads)
    return op.emitOpError("output ")
           << out << " is not [B, T, heads * D] with " << heads << " heads";
  int64_t headDim = out.getDimSize(2) / heads;
  SmallVector<int64_t> widths = {heads * headDim, kvHeads * headDim,
                                 kvHeads * headDim};
  if (op.getQkv().size() == 1)
    widths = {(heads + 2 * kvHeads) * headDim};
  if (op.getQkv().size() != widths.size())
    return op.emitOpError("takes q, k, v as one operand or three, got ")
           << op.getQkv().size();
  for (auto [value, width] : llvm::zip(op.getQkv(), widths))
    if (failed(verifyShape(op, value,
                           {out.getDimSize(0), out.getDimSize(1), width},
                           "operand")))
      return failure();
  if (op.getP().convertToDouble() > 0 && !op.getRng())
    return op.emitOpError("drops out without random numbers (rng)");
  return verifyShape(op, lse, {out.getDimSize(0), heads, out.getDimSize(1)},
                     "lse");
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getOutput(), getLse());
}

int64_t AttentionOp::getHeadDim() {
  return tensorOf(getOutput()).getDimSize(2) / getHeads();
}

LogicalResult AttentionGradOp::verify() {
  if (getOutputs().getTypes() != getQkv().getTypes())
    return emitOpError("gives ")
           << getOutputs().getTypes() << ", one for each of "
           << getQkv().getTypes() << " is expected";
  if (getGrad().getType() != getForward().getType())
    return emitOpError("grad and forward differ in type");
  return verifyAttention(*this, getForward(), getLse());
}

LogicalResult CrossEntropyOp::verify() {
  ArrayRef<int64_t> rows = tensorOf(getLogits()).getShape().drop_back();
  if (failed(verifyShape(*this, getLabels(), rows, "labels")) ||
      failed(verifyShape(*this, getLosses(), rows, "losses")))
    return failure();
  return verifyShape(*this, getLse(), rows, "lse");
}

LogicalResult SquareSumsOp::verify() {
  int64_t size = tensorOf(getInput()).getNumElements();
  return verifyShape(*this, getOutput(), {(size + blockSize - 1) / blockSize},
                     "output");
}
