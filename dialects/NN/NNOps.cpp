//===- NNOps.cpp - Verifiers of the nn operations -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/VerifyShape.h"
#include <cmath>

using namespace mlir;
using namespace heddle::nn;

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.cpp.inc"

LogicalResult heddle::nn::verifyShape(Operation *op, Value value,
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

/// Verifies that `value` has at least one dimension, the features.
static LogicalResult verifyRows(Operation *op, Value value, StringRef what) {
  if (tensorOf(value).getRank() >= 1)
    return success();
  return op->emitOpError(what) << " has no features: it is of rank 0";
}

/// Verifies that `init`, the operand to which the result is added, has the type
/// of the result.
static LogicalResult verifyInit(Operation *op, Value init, Value output) {
  if (!init || init.getType() == output.getType())
    return success();
  return op->emitOpError("init has another type than the output");
}

/// `operand` and `sizes` together say which shard of a larger tensor the
/// operation works on. Verifies that `operand` and all of `sizes` are present,
/// or none of them; `what` names them in the message.
static LogicalResult verifyPart(Operation *op, Value operand,
                                ArrayRef<IntegerAttr> sizes, StringRef what) {
  for (IntegerAttr size : sizes) {
    if (static_cast<bool>(operand) != static_cast<bool>(size))
      return op->emitOpError("needs all of ") << what << " or none";
    if (size && size.getInt() < 1)
      return op->emitOpError("says ")
             << what << ", of which one is " << size.getInt();
  }
  return success();
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
  if (tensorOf(getOutput()).getRank() != 2)
    return emitOpError("needs an output of rank 2, got ")
           << getOutput().getType();
  if (failed(verifyInit(*this, getInit(), getOutput())))
    return failure();
  return verifyShape(*this, getGrad(),
                     append(tensorOf(getIds()).getShape(),
                            tensorOf(getOutput()).getDimSize(1)),
                     "grad");
}

LogicalResult PositionsOp::verify() {
  return verifyRows(*this, getOutput(), "output");
}

LogicalResult ReorderOp::verify() {
  auto order = tensorOf(getOrder());
  if (order.getRank() != 1)
    return emitOpError("needs an order of rank 1, got ") << order;
  if (tensorOf(getInput()).getRank() == 0)
    return emitOpError("needs an input with features");
  return verifyShape(
      *this, getOutput(),
      append(tensorOf(getInput()).getShape().drop_back(), order.getDimSize(0)),
      "output");
}

LogicalResult CastOp::verify() {
  return verifyShape(*this, getOutput(), tensorOf(getInput()).getShape(),
                     "output");
}

LogicalResult DropoutOp::verify() {
  double p = getP().convertToDouble();
  if (!(p >= 0 && p < 1))
    return emitOpError("has probability ") << p << "; it must be in [0, 1)";
  if (getInput().getType() != getOutput().getType())
    return emitOpError("changes the type of its input");
  if (failed(verifyShape(*this, getRng(), {4}, "rng")))
    return failure();
  ArrayRef<int64_t> parts = getParts().value_or(ArrayRef<int64_t>());
  ArrayRef<int64_t> inner = getInner().value_or(ArrayRef<int64_t>());
  if (parts.size() != getPart().size() || inner.size() != getPart().size())
    return emitOpError("needs all of part, parts and inner or none");
  for (int64_t size : parts)
    if (size < 1)
      return emitOpError("is one of ") << size << " parts";
  // Each of the `inner` sizes must be the product of the input's last n
  // dimensions, for some n. Try n = 1 first, then n = 2, and so on.
  auto wanted = inner.rbegin();
  int64_t elements = 1;
  for (int64_t size : llvm::reverse(getInput().getType().getShape())) {
    elements *= size;
    if (wanted != inner.rend() && *wanted == elements)
      ++wanted;
  }
  if (wanted != inner.rend())
    return emitOpError("has an inner size of ")
           << *wanted << " elements, which no last dimensions have in "
           << getInput().getType();
  return success();
}

bool ReshapeOp::splits() {
  return tensorOf(getOutput()).getRank() > tensorOf(getInput()).getRank();
}

LogicalResult ReshapeOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getOutput());
  ArrayRef<int64_t> joined = (splits() ? in : out).getShape();
  ArrayRef<int64_t> split = (splits() ? out : in).getShape();
  bool fits = in.getElementType() == out.getElementType() &&
              joined.size() > 1 && split.size() == joined.size() + 1 &&
              joined.drop_back() == split.drop_back(2) &&
              joined.back() == split.back() * split[joined.size() - 1];
  if (!fits)
    return emitOpError("makes ")
           << out << " of " << in
           << "; the last dimension becomes two, or the last two one";
  return success();
}

LogicalResult SliceOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getOutput());
  int64_t dim = getDim(), offset = getOffset();
  bool fits = in.getElementType() == out.getElementType() && dim >= 0 &&
              dim < in.getRank() && in.getRank() == out.getRank();
  for (int64_t d = 0; fits && d < in.getRank(); ++d)
    fits = d == dim
               ? offset >= 0 && offset + out.getDimSize(d) <= in.getDimSize(d)
               : in.getDimSize(d) == out.getDimSize(d);
  if (!fits)
    return emitOpError("takes ") << out << " from element " << offset
                                 << " of dimension " << dim << " of " << in;
  return success();
}

LogicalResult ConcatOp::verify() {
  auto out = tensorOf(getOutput());
  int64_t dim = getDim(), sum = 0;
  bool fits = dim >= 0 && dim < out.getRank();
  for (Value input : getInputs()) {
    auto in = tensorOf(input);
    fits &= in.getElementType() == out.getElementType() &&
            in.getRank() == out.getRank();
    for (int64_t d = 0; fits && d < in.getRank(); ++d)
      fits = d == dim || in.getDimSize(d) == out.getDimSize(d);
    sum += fits ? in.getDimSize(dim) : 0;
  }
  if (!fits || sum != out.getDimSize(dim))
    return emitOpError("puts ")
           << getInputs().getTypes() << " side by side along dimension " << dim
           << " and gets " << out;
  return success();
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
  if (getBias() && getInit())
    return emitOpError("has a bias and an init");
  if (getBias() && failed(verifyShape(*this, getBias(), {out}, "bias")))
    return failure();
  if (failed(verifyInit(*this, getInit(), getOutput())))
    return failure();
  return verifyShape(*this, getOutput(), withLast(input.getShape(), out),
                     "output");
}

LogicalResult AddBiasOp::verify() {
  if (failed(verifyRows(*this, getInput(), "input")))
    return failure();
  ArrayRef<int64_t> shape = tensorOf(getInput()).getShape();
  if (failed(verifyShape(*this, getBias(), shape.take_back(), "bias")))
    return failure();
  return verifyShape(*this, getOutput(), shape, "output");
}

LogicalResult LinearGradWeightOp::verify() {
  if (failed(verifyRows(*this, getInput(), "input")) ||
      failed(verifyRows(*this, getGrad(), "grad")) ||
      failed(verifyInit(*this, getInit(), getOutput())))
    return failure();
  int64_t in = tensorOf(getInput()).getShape().back();
  int64_t out = tensorOf(getGrad()).getShape().back();
  if (tensorOf(getInput()).getShape().drop_back() !=
      tensorOf(getGrad()).getShape().drop_back())
    return emitOpError("input and grad differ in their rows");
  SmallVector<int64_t> shape = {in, out};
  if (getTransposed())
    shape = {out, in};
  return verifyShape(*this, getOutput(), shape, "output");
}

LogicalResult SumRowsOp::verify() {
  if (failed(verifyRows(*this, getInput(), "input")) ||
      failed(verifyInit(*this, getInit(), getOutput())))
    return failure();
  return verifyShape(*this, getOutput(),
                     {tensorOf(getInput()).getShape().back()}, "output");
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Verifies the shapes of a norm or its gradient: parameters and their
/// gradients have one element for each feature of `input`, statistics one for
/// each row, and all other values the shape of `input`.
static LogicalResult
verifyNorm(Operation *op, Value input,
           ArrayRef<std::pair<Value, StringRef>> parameters,
           ArrayRef<std::pair<Value, StringRef>> statistics,
           ArrayRef<std::pair<Value, StringRef>> others) {
  if (failed(verifyRows(op, input, "input")))
    return failure();
  ArrayRef<int64_t> shape = tensorOf(input).getShape();
  for (auto [value, what] : parameters)
    if (value && failed(verifyShape(op, value, shape.take_back(), what)))
      return failure();
  for (auto [value, what] : statistics)
    if (failed(verifyShape(op, value, shape.drop_back(), what)))
      return failure();
  for (auto [value, what] : others)
    if (failed(verifyShape(op, value, shape, what)))
      return failure();
  return success();
}

LogicalResult LayerNormOp::verify() {
  return verifyNorm(
      *this, getInput(), {{getWeight(), "weight"}, {getBias(), "bias"}},
      {{getMean(), "mean"}, {getRstd(), "rstd"}}, {{getOutput(), "output"}});
}

LogicalResult LayerNormGradInputOp::verify() {
  return verifyNorm(*this, getInput(), {{getWeight(), "weight"}},
                    {{getMean(), "mean"}, {getRstd(), "rstd"}},
                    {{getGrad(), "grad"}, {getOutput(), "output"}});
}

LogicalResult LayerNormGradWeightOp::verify() {
  return verifyNorm(*this, getInput(),
                    {{getWeightInit(), "weight_init"},
                     {getBiasInit(), "bias_init"},
                     {getWeightGrad(), "weight_grad"},
                     {getBiasGrad(), "bias_grad"}},
                    {{getMean(), "mean"}, {getRstd(), "rstd"}},
                    {{getGrad(), "grad"}});
}

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this, getInput(), {{getWeight(), "weight"}},
                    {{getRstd(), "rstd"}}, {{getOutput(), "output"}});
}

LogicalResult RmsNormGradInputOp::verify() {
  return verifyNorm(*this, getInput(), {{getWeight(), "weight"}},
                    {{getRstd(), "rstd"}},
                    {{getGrad(), "grad"}, {getOutput(), "output"}});
}

LogicalResult RmsNormGradWeightOp::verify() {
  return verifyNorm(*this, getInput(),
                    {{getInit(), "init"}, {getOutput(), "output"}},
                    {{getRstd(), "rstd"}}, {{getGrad(), "grad"}});
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

double RotaryOp::getRate(int64_t pair) {
  double rate = std::pow(getTheta().convertToDouble(),
                         -2.0 * double(pair) / double(getDims()));
  auto scaling = getScalingAttr();
  if (!scaling)
    return rate;
  double low = scaling.getLow().getValueAsDouble();
  double high = scaling.getHigh().getValueAsDouble();
  double stays = 0;
  switch (scaling.getRamp()) {
  case RotaryRamp::All:
    break;
  case RotaryRamp::Pairs:
    stays = 1 - std::clamp((double(pair) - low) / (high - low), 0.0, 1.0);
    break;
  case RotaryRamp::Rates:
    stays = std::clamp((rate - low) / (high - low), 0.0, 1.0);
    break;
  }
  return rate * (stays + (1 - stays) / scaling.getFactor().getValueAsDouble());
}

double RotaryOp::getMagnitude() {
  auto scaling = getScalingAttr();
  return scaling ? scaling.getMagnitude().getValueAsDouble() : 1.0;
}

LogicalResult RotaryOp::verify() {
  auto input = tensorOf(getInput());
  int64_t heads = getHeads(), dims = getDims();
  if (heads < 1 || input.getRank() != 3 || input.getDimSize(2) % heads)
    return emitOpError("input ")
           << input << " is not [B, T, heads * D] with " << heads << " heads";
  int64_t headDim = input.getDimSize(2) / heads;
  if (dims < 2 || dims % 2 || dims > headDim)
    return emitOpError("rotates ")
           << dims << " dimensions of a head of " << headDim
           << "; an even number of at most all is possible";
  if (failed(verifyShape(*this, getPositions(), input.getShape().drop_back(),
                         "positions")))
    return failure();
  return verifyShape(*this, getOutput(), input.getShape(), "output");
}

//===----------------------------------------------------------------------===//
// Loss and optimizer
//===----------------------------------------------------------------------===//

static LogicalResult verifySmoothing(Operation *op, const APFloat &smoothing) {
  double share = smoothing.convertToDouble();
  if (share >= 0 && share < 1)
    return success();
  return op->emitOpError("has smoothing ") << share << "; it must be in [0, 1)";
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifySmoothing(*this, getSmoothing())))
    return failure();
  if (failed(verifyRows(*this, getLogits(), "logits")))
    return failure();
  ArrayRef<int64_t> rows = tensorOf(getLogits()).getShape().drop_back();
  if (failed(verifyShape(*this, getLabels(), rows, "labels")) ||
      failed(verifyShape(*this, getLosses(), rows, "losses")))
    return failure();
  return verifyShape(*this, getLse(), rows, "lse");
}

LogicalResult CrossEntropyPartOp::verify() {
  if (failed(verifySmoothing(*this, getSmoothing())))
    return failure();
  if (tensorOf(getLogits()).getRank() < 2)
    return emitOpError("needs logits of rank 2 or more, got ")
           << getLogits().getType();
  if (auto size = static_cast<int64_t>(getVocab()); size < 1)
    return emitOpError("has a vocabulary of ") << size;
  ArrayRef<int64_t> rows = tensorOf(getLogits()).getShape().drop_back();
  if (failed(verifyShape(*this, getLabels(), rows, "labels")) ||
      failed(verifyShape(*this, getLse(), rows, "lse")))
    return failure();
  return verifyShape(*this, getLabelLogit(), rows, "label_logit");
}

LogicalResult CrossEntropyJoinOp::verify() {
  ArrayRef<int64_t> rows = tensorOf(getLabels()).getShape();
  ArrayRef<int64_t> lses = tensorOf(getLses()).getShape();
  if (rows.empty() || lses.size() != rows.size() || lses[0] < rows[0] ||
      lses[0] % rows[0] || lses.drop_front() != rows.drop_front())
    return emitOpError("lses ")
           << getLses().getType() << " are not those of parts of "
           << getLabels().getType();
  if (failed(verifyShape(*this, getLabelLogit(), rows, "label_logit")) ||
      failed(verifyShape(*this, getLosses(), rows, "losses")))
    return failure();
  return verifyShape(*this, getLse(), rows, "lse");
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifySmoothing(*this, getSmoothing())) ||
      failed(verifyRows(*this, getLogits(), "logits")) ||
      failed(
          verifyPart(*this, getFirst(), {getVocabAttr()}, "first and vocab")))
    return failure();
  ArrayRef<int64_t> shape = tensorOf(getLogits()).getShape();
  if (failed(verifyShape(*this, getLabels(), shape.drop_back(), "labels")) ||
      failed(verifyShape(*this, getLse(), shape.drop_back(), "lse")) ||
      failed(verifyShape(*this, getGrad(), shape.drop_back(), "grad")))
    return failure();
  return verifyShape(*this, getOutput(), shape, "output");
}

/// Verifies that `value`, if present, has the shape of `like`.
static LogicalResult verifyAlike(Operation *op, Value value, Value like,
                                 StringRef what) {
  return value ? verifyShape(op, value, tensorOf(like).getShape(), what)
               : success();
}

LogicalResult CountLabelsOp::verify() {
  if (failed(verifyAlike(*this, getWeights(), getLabels(), "weights")))
    return failure();
  return verifyShape(*this, getOutput(), {}, "output");
}

LogicalResult LossScaleOp::verify() {
  if (failed(verifyShape(*this, getCount(), {}, "count")))
    return failure();
  return verifyShape(*this, getOutput(), {}, "output");
}

LogicalResult TokenWeightsOp::verify() {
  if (failed(verifyShape(*this, getScale(), {}, "scale")) ||
      failed(verifyAlike(*this, getWeights(), getLabels(), "weights")))
    return failure();
  return verifyAlike(*this, getOutput(), getLabels(), "output");
}

LogicalResult SumOp::verify() {
  if (failed(verifyAlike(*this, getWeights(), getInput(), "weights")))
    return failure();
  if (failed(verifyInit(*this, getInit(), getOutput())))
    return failure();
  return verifyShape(*this, getOutput(), {}, "output");
}

LogicalResult TakeRowOp::verify() {
  auto input = tensorOf(getInput());
  if (input.getRank() != 3)
    return emitOpError("needs an input of rank 3, got ") << input;
  if (failed(verifyShape(*this, getPosition(), {}, "position")))
    return failure();
  return verifyShape(*this, getOutput(),
                     {input.getDimSize(0), 1, input.getDimSize(2)}, "output");
}

LogicalResult GlobalNormOp::verify() {
  if (getInputs().empty())
    return emitOpError("has no inputs");
  return verifyShape(*this, getOutput(), {}, "output");
}

LogicalResult AdvancePowerOp::verify() {
  std::pair<Value, StringRef> scalars[] = {{getPower(), "power"},
                                           {getCondition(), "condition"},
                                           {getNext(), "next"},
                                           {getCorrection(), "correction"}};
  for (auto [value, what] : scalars)
    if (value && failed(verifyShape(*this, value, {}, what)))
      return failure();
  return success();
}

LogicalResult CountUpdateOp::verify() {
  std::pair<Value, StringRef> scalars[] = {{getCount(), "count"},
                                           {getCondition(), "condition"},
                                           {getNext(), "next"}};
  for (auto [value, what] : scalars)
    if (value && failed(verifyShape(*this, value, {}, what)))
      return failure();
  return success();
}

LogicalResult TakeRateOp::verify() {
  auto rates = tensorOf(getRates());
  if (rates.getRank() != 1 || rates.getNumElements() == 0)
    return emitOpError("needs a list of rates, got ") << rates;
  if (failed(verifyShape(*this, getCount(), {}, "count")))
    return failure();
  return verifyShape(*this, getRate(), {}, "rate");
}

LogicalResult SquareSumsOp::verify() {
  int64_t size = tensorOf(getInput()).getNumElements();
  return verifyShape(*this, getOutput(), {(size + blockSize - 1) / blockSize},
                     "output");
}
