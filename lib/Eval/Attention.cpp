//===- Attention.cpp - Attention and rotary embedding -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of attention, its gradient, the joining of partial
// attention, and rotary embedding.
//
//===----------------------------------------------------------------------===//

#include "BlockLayout.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::eval {

namespace {

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The vectors of q, k or v. An index is a batch row, a position and a head. q,
/// k and v are side by side in one tensor, or are three tensors.
struct HeadView {
  const double *read = nullptr;
  /// The elements of the gradient of q, k or v, for attention_grad only.
  double *write = nullptr;
  int64_t length = 0;  ///< The number of positions, T.
  int64_t rowSize = 0; ///< Elements of one position of the operand.
  int64_t offset = 0;  ///< The offset of head 0 among these elements.
  int64_t headDim = 0;

  int64_t index(int64_t batch, int64_t position, int64_t head) const {
    return (batch * length + position) * rowSize + offset + head * headDim;
  }
  const double *at(int64_t batch, int64_t position, int64_t head) const {
    return read + index(batch, position, head);
  }
  double *gradAt(int64_t batch, int64_t position, int64_t head) const {
    return write + index(batch, position, head);
  }
};

/// The shapes and operands that attention and its gradient share.
struct AttentionShape {
  int64_t batch, length, heads, kvHeads, headDim;
  double scale, softcap; ///< If `softcap` is 0, scores are not capped.
  bool causal;
  /// The largest number of keys that a query sees, the last of which is at the
  /// query's own position; 0: no limit.
  int64_t window;
  llvm::ArrayRef<int64_t> lengths; ///< Lengths of rows; empty: all are full.
  BlockLayout layout;
  HeadView q, k, v;
  /// `wholeLength` is the number of tokens of the whole sequence, of which this
  /// tensor may be a shard. `firstQuery` and `firstKey` are the positions in
  /// the whole sequence at which the shard's queries and keys begin.
  int64_t wholeLength, firstQuery = 0, firstKey = 0;
  /// Dropout's mask over [B, heads, T, T], where T is the length of the whole
  /// sequence; nullopt without dropout.
  std::optional<DropoutMask> mask;

  AttentionShape(nn::AttentionOpInterface op, const Inputs &in);

  /// The keys to which a query attends, as indices in this shard of the
  /// sequence, in ascending order.
  std::vector<int64_t> visible(int64_t b, int64_t head, int64_t query) const {
    int64_t end = lengths.empty() ? wholeLength : lengths[b];
    if (causal)
      end = std::min(end, firstQuery + query + 1);
    int64_t first =
        window ? std::max<int64_t>(firstQuery + query - window + 1, 0) : 0;
    std::vector<int64_t> keys;
    for (int64_t key = std::max<int64_t>(first - firstKey, 0);
         key < std::min(end - firstKey, length); ++key)
      if (layout.has(head, firstQuery + query, firstKey + key))
        keys.push_back(key);
    return keys;
  }
  int64_t kvHead(int64_t head) const { return head / (heads / kvHeads); }
  /// The score of a query and a key: their product with scale and soft cap
  /// applied.
  double score(int64_t b, int64_t head, int64_t query, int64_t key) const {
    const double *left = q.at(b, query, head);
    const double *right = k.at(b, key, kvHead(head));
    double sum = 0;
    for (int64_t d = 0; d < headDim; ++d)
      sum += left[d] * right[d];
    sum *= scale;
    return softcap > 0 ? softcap * std::tanh(sum / softcap) : sum;
  }
  /// The derivative of the softcap at a score.
  double slope(double score) const {
    double share = softcap > 0 ? score / softcap : 0;
    return 1 - share * share;
  }
  /// The factor by which dropout multiplies a probability: 0 or 1 / (1 - p).
  double dropFactor(int64_t b, int64_t head, int64_t query, int64_t key) const {
    int64_t row = (b * heads + head) * wholeLength + firstQuery + query;
    return mask ? mask->factor(row * wholeLength + firstKey + key) : 1;
  }
};

AttentionShape::AttentionShape(nn::AttentionOpInterface op, const Inputs &in)
    : heads(op.getHeads().getCount()), kvHeads(op.getHeads().getKv()),
      headDim(op.getHeadDim()),
      scale(op.getHeads().getScale().convertToDouble()),
      softcap(op.getHeads().getSoftcap().convertToDouble()),
      causal(op.getMask().isCausal()), window(op.getMask().getWindow()),
      layout(op, in, op.getHeads().getCount()) {
  if (op.getLengths())
    lengths = in.ints(op.getLengths());
  bool packed = op.isPacked();
  const Tensor &first = in[op.getQkv()[0]];
  batch = first.shape()[0];
  length = first.shape()[1];
  int64_t places = op.getSequenceShards();
  wholeLength = length * places;
  if (op.getSequenceShard()) {
    int64_t place = in.integer(op.getSequenceShard()),
            turn = in.integer(op.getRingStep());
    firstQuery = place * length;
    firstKey = (place + places - turn) % places * length;
  }
  int64_t offsets[] = {0, heads * headDim, (heads + kvHeads) * headDim};
  HeadView *views[] = {&q, &k, &v};
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor &operand = packed ? first : in[op.getQkv()[i]];
    *views[i] = {operand.floats().data(), nullptr, length, operand.columns(),
                 packed ? offsets[i] : 0, headDim};
  }
  int64_t ofHeads = heads * wholeLength * wholeLength;
  if (nn::DropoutAttr dropout = op.getDropoutAttr())
    mask.emplace(in.ints(op.getRng()), static_cast<uint32_t>(dropout.getSite()),
                 in.integer(op.getLayer()),
                 DropoutPosition{
                     in.integer(op.getMicroBatch()),
                     batch * ofHeads,
                     {{in.integerOr(op.getPart(), 0), op.getParts(), ofHeads}}},
                 dropout.getP().convertToDouble());
}

LogicalResult evalAttention(nn::AttentionOp op, const Inputs &in,
                            Outputs &out) {
  AttentionShape shape(op, in);
  double *output = out.floats(op.getOutput());
  double *lses = out.floats(op.getLse());
  HeadView result{
      nullptr, output,       shape.length, shape.heads * shape.headDim,
      0,       shape.headDim};
  std::vector<double> scores(shape.length);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t query = 0; query < shape.length; ++query) {
        std::vector<int64_t> keys = shape.visible(b, head, query);
        double largest = -INFINITY, sum = 0;
        for (int64_t key : keys) {
          scores[key] = shape.score(b, head, query, key);
          largest = std::max(largest, scores[key]);
        }
        for (int64_t key : keys)
          sum += std::exp(scores[key] - largest);
        double lse = keys.empty() ? std::numeric_limits<float>::lowest()
                                  : largest + std::log(sum);
        lses[(b * shape.heads + head) * shape.length + query] = lse;
        double *row = result.gradAt(b, query, head);
        for (int64_t key : keys) {
          double probability = std::exp(scores[key] - lse) *
                               shape.dropFactor(b, head, query, key);
          const double *value = shape.v.at(b, key, shape.kvHead(head));
          for (int64_t d = 0; d < shape.headDim; ++d)
            row[d] += probability * value[d];
        }
      }
  return success();
}

/// Adds the contributions of one query of one head to the gradients of q, k and
/// v. `forward` is the query's output.
void addQueryGradients(const AttentionShape &shape, int64_t b, int64_t head,
                       int64_t query, double lse, const double *grad,
                       const double *forward) {
  int64_t kv = shape.kvHead(head);
  std::vector<int64_t> keys = shape.visible(b, head, query);
  std::vector<double> probabilities(shape.length), gradients(shape.length),
      slopes(shape.length);
  // The gradient of softmax: ds = p * (dp - sum over keys of p * dp). The sum
  // is computed as the dot product of the query's output and its gradient, so
  // that it includes keys of other sequence shards.
  double weightedSum = 0;
  for (int64_t d = 0; d < shape.headDim; ++d)
    weightedSum += forward[d] * grad[d];
  for (int64_t key : keys) {
    double score = shape.score(b, head, query, key);
    double probability = std::exp(score - lse);
    double factor = shape.dropFactor(b, head, query, key);
    const double *value = shape.v.at(b, key, kv);
    double *valueGrad = shape.v.gradAt(b, key, kv);
    double product = 0;
    for (int64_t d = 0; d < shape.headDim; ++d) {
      product += grad[d] * value[d];
      valueGrad[d] += probability * factor * grad[d];
    }
    probabilities[key] = probability;
    slopes[key] = shape.slope(score);
    gradients[key] = factor * product;
  }
  const double *queryVector = shape.q.at(b, query, head);
  double *queryGrad = shape.q.gradAt(b, query, head);
  for (int64_t key : keys) {
    double scoreGrad = shape.scale * slopes[key] * probabilities[key] *
                       (gradients[key] - weightedSum);
    const double *keyVector = shape.k.at(b, key, kv);
    double *keyGrad = shape.k.gradAt(b, key, kv);
    for (int64_t d = 0; d < shape.headDim; ++d) {
      queryGrad[d] += scoreGrad * keyVector[d];
      keyGrad[d] += scoreGrad * queryVector[d];
    }
  }
}

LogicalResult evalAttentionGrad(nn::AttentionGradOp op, const Inputs &in,
                                Outputs &out) {
  AttentionShape shape(op, in);
  HeadView *views[] = {&shape.q, &shape.k, &shape.v};
  for (auto [index, view] : llvm::enumerate(views))
    view->write = out.floats(op.getOutputs()[op.isPacked() ? 0 : index]);
  const double *lses = in.floats(op.getLse());
  const double *grad = in.floats(op.getGrad());
  const double *forward = in.floats(op.getForward());
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t query = 0; query < shape.length; ++query) {
        int64_t row = (b * shape.length + query) * shape.heads + head;
        addQueryGradients(shape, b, head, query,
                          lses[(b * shape.heads + head) * shape.length + query],
                          grad + row * shape.headDim,
                          forward + row * shape.headDim);
      }
  return success();
}

/// log(exp(x) + exp(y)). The larger number is factored out, so that nothing
/// overflows.
static double logAddExp(double x, double y) {
  double largest = std::max(x, y);
  return largest + std::log(std::exp(x - largest) + std::exp(y - largest));
}

LogicalResult evalAttentionJoin(nn::AttentionJoinOp op, const Inputs &in,
                                Outputs &out) {
  const Tensor &lses = in[op.getLeftLse()];
  int64_t heads = lses.shape()[1], length = lses.shape()[2];
  int64_t columns = in[op.getLeft()].columns(), headDim = columns / heads;
  const double *leftLse = in.floats(op.getLeftLse());
  const double *rightLse = in.floats(op.getRightLse());
  const double *left = in.floats(op.getLeft());
  const double *right = in.floats(op.getRight());
  double *output = out.floats(op.getOutput());
  for (int64_t row = 0; row < lses.numElements(); ++row) {
    double lse = logAddExp(leftLse[row], rightLse[row]);
    int64_t head = row / length % heads;
    int64_t position = row / length / heads * length + row % length;
    for (int64_t d = 0; d < headDim; ++d) {
      int64_t at = position * columns + head * headDim + d;
      output[at] = std::exp(leftLse[row] - lse) * left[at] +
                   std::exp(rightLse[row] - lse) * right[at];
    }
  }
  return success();
}

LogicalResult evalLogAddExp(nn::LogAddExpOp op, const Inputs &in,
                            Outputs &out) {
  const double *lhs = in.floats(op.getLhs()), *rhs = in.floats(op.getRhs());
  double *output = out.floats(op.getOutput());
  for (int64_t i = 0, size = in [op.getLhs()].numElements(); i < size; ++i)
    output[i] = logAddExp(lhs[i], rhs[i]);
  return success();
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

LogicalResult evalRotary(nn::RotaryOp op, const Inputs &in, Outputs &out) {
  Tensor &output = out[op.getOutput()];
  output = in[op.getInput()].withKind(output.kind());
  const double *x = in.floats(op.getInput());
  double *y = output.mutableFloats().data();
  llvm::ArrayRef<int64_t> positions = in.ints(op.getPositions());
  int64_t heads = op.getHeads(), dims = op.getDims();
  int64_t headDim = output.columns() / heads;
  double magnitude = op.getMagnitude();
  for (int64_t row = 0; row < output.rows(); ++row)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < dims / 2; ++i) {
        double angle = positions[row % positions.size()] * op.getRate(i);
        if (op.getInverse())
          angle = -angle;
        double cosine = magnitude * std::cos(angle);
        double sine = magnitude * std::sin(angle);
        int64_t first = (row * heads + head) * headDim + i;
        int64_t second = first + dims / 2;
        y[first] = x[first] * cosine - x[second] * sine;
        y[second] = x[second] * cosine + x[first] * sine;
      }
  return success();
}

} // namespace

void attachAttentionEvaluations(MLIRContext &context) {
  attachEvaluation<nn::AttentionOp, evalAttention>(context);
  attachEvaluation<nn::AttentionGradOp, evalAttentionGrad>(context);
  attachEvaluation<nn::AttentionJoinOp, evalAttentionJoin>(context);
  attachEvaluation<nn::LogAddExpOp, evalLogAddExp>(context);
  attachEvaluation<nn::RotaryOp, evalRotary>(context);
}

} // namespace heddle::eval
