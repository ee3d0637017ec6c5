//===- Cache.cpp - Keys and values kept across runs -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceOps.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace heddle::eval {

namespace {

/// The shapes of both operations, and where things stand in their tensors.
struct CacheView {
  template <typename OpT>
  CacheView(OpT op, const Inputs &in)
      : rows(in[op.getPositions()].shape()[0]),
        tokens(in[op.getPositions()].shape()[1]),
        rowPages(in[op.getPages()].shape()[1]), heads(op.getHeads().getCount()),
        kv(op.getHeads().getKv()), dims(op.getHeadDim()),
        pageTokens(op.getPageTokens()), pages(in.ints(op.getPages())),
        positions(in.ints(op.getPositions())),
        lengths(in.ints(op.getLengths())) {
    bool packed = op.isPacked();
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    for (int64_t i = 0; i < 3; ++i) {
      const Tensor &operand = in[op.getQkv()[packed ? 0 : i]];
      qkv[i] = operand.floats().data() + (packed ? offsets[i] : 0);
      strides[i] = operand.columns();
    }
  }

  bool isThere(int64_t row, int64_t token) const {
    return token < lengths[row];
  }
  /// q, k or v of a token's head.
  const double *head(int64_t which, int64_t row, int64_t token,
                     int64_t head) const {
    return qkv[which] + (row * tokens + token) * strides[which] + head * dims;
  }
  /// Where a feature of a position stands in keys, and in values.
  int64_t key(int64_t row, int64_t position, int64_t head, int64_t d) const {
    return (begin(row, position, head) + d) * pageTokens +
           position % pageTokens;
  }
  int64_t value(int64_t row, int64_t position, int64_t head, int64_t d) const {
    return (begin(row, position, head) / dims * pageTokens +
            position % pageTokens) *
               dims +
           d;
  }

  int64_t rows, tokens, rowPages, heads, kv, dims, pageTokens;
  llvm::ArrayRef<int64_t> pages, positions, lengths;
  const double *qkv[3];
  int64_t strides[3];

private:
  int64_t begin(int64_t row, int64_t position, int64_t head) const {
    int64_t page = pages[row * rowPages + position / pageTokens];
    return (page * kv + head) * dims;
  }
};

LogicalResult evalCacheWrite(nn::CacheWriteOp op, const Inputs &in,
                             Outputs &out) {
  CacheView view(op, in);
  out[op.getNewKeys()] = in[op.getKeys()];
  out[op.getNewValues()] = in[op.getValues()];
  double *keys = out.floats(op.getNewKeys());
  double *values = out.floats(op.getNewValues());
  for (int64_t row = 0; row < view.rows; ++row)
    for (int64_t token = 0; token < view.tokens; ++token) {
      if (!view.isThere(row, token))
        continue;
      int64_t position = view.positions[row * view.tokens + token];
      for (int64_t head = 0; head < view.kv; ++head)
        for (int64_t d = 0; d < view.dims; ++d) {
          keys[view.key(row, position, head, d)] =
              view.head(1, row, token, head)[d];
          values[view.value(row, position, head, d)] =
              view.head(2, row, token, head)[d];
        }
    }
  return success();
}

/// The output of one query.
void attend(nn::PagedAttentionOp op, const CacheView &view, const double *keys,
            const double *values, int64_t row, int64_t token, int64_t head,
            double *output) {
  double scale = op.getHeads().getScale().convertToDouble();
  double cap = op.getHeads().getSoftcap().convertToDouble();
  int64_t window = op.getMask().getWindow();
  int64_t count = view.positions[row * view.tokens + token] + 1;
  int64_t first = window ? std::max<int64_t>(count - window, 0) : 0;
  int64_t kvHead = head / (view.heads / view.kv);
  const double *query = view.head(0, row, token, head);
  std::vector<double> scores(count);
  double largest = -INFINITY, sum = 0;
  for (int64_t key = first; key < count; ++key) {
    for (int64_t d = 0; d < view.dims; ++d)
      scores[key] += query[d] * keys[view.key(row, key, kvHead, d)];
    scores[key] *= scale;
    if (cap > 0)
      scores[key] = cap * std::tanh(scores[key] / cap);
    largest = std::max(largest, scores[key]);
  }
  for (int64_t key = first; key < count; ++key)
    sum += scores[key] = std::exp(scores[key] - largest);
  for (int64_t key = first; key < count; ++key)
    for (int64_t d = 0; d < view.dims; ++d)
      output[d] += scores[key] / sum * values[view.value(row, key, kvHead, d)];
}

LogicalResult evalPagedAttention(nn::PagedAttentionOp op, const Inputs &in,
                                 Outputs &out) {
  CacheView view(op, in);
  double *output = out.floats(op.getOutput());
  for (int64_t row = 0; row < view.rows; ++row)
    for (int64_t token = 0; token < view.tokens; ++token)
      for (int64_t head = 0; head < view.heads; ++head, output += view.dims)
        if (view.isThere(row, token))
          attend(op, view, in.floats(op.getKeys()), in.floats(op.getValues()),
                 row, token, head, output);
  return success();
}

} // namespace

void attachCacheEvaluations(MLIRContext &context) {
  attachEvaluation<nn::CacheWriteOp, evalCacheWrite>(context);
  attachEvaluation<nn::PagedAttentionOp, evalPagedAttention>(context);
}

} // namespace heddle::eval
