//===- Cache.cpp - The key-value cache ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reference evaluations of the operations on a paged key-value cache.
//
//===----------------------------------------------------------------------===//

#include "BlockLayout.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::eval {

namespace {

/// The sizes that all operations on a cache have in common, and functions that
/// compute indices of elements in the operations' tensors.
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
  /// The vector of a token and head in q, k or v (`which` is 0, 1 or 2).
  const double *head(int64_t which, int64_t row, int64_t token,
                     int64_t head) const {
    return qkv[which] + (row * tokens + token) * strides[which] + head * dims;
  }
  /// The index of feature `d` of the key of a position and head, in the tensor
  /// of all keys. `value` returns the same for the value, in the tensor of all
  /// values.
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

  /// The index of a scale in the tensor of scales: of the key (`which` is 0) or
  /// the value (`which` is 1) of a position and head.
  int64_t scale(int64_t row, int64_t position, int64_t head,
                int64_t which) const {
    return (begin(row, position, head) / dims * 2 + which) * pageTokens +
           position % pageTokens;
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

/// Quantizes the vector `head` of a token and writes the codes to `codes`.
/// Returns the scale of the codes, rounded to `kind`. `place` maps the index of
/// a feature to the index of the feature's code.
double writeCodes(const double *head, int64_t dims, ElementKind kind,
                  llvm::MutableArrayRef<int64_t> codes,
                  llvm::function_ref<int64_t(int64_t)> place) {
  float largest = 0;
  for (int64_t d = 0; d < dims; ++d)
    largest = std::max(largest, std::abs(static_cast<float>(head[d])));
  auto scale = static_cast<float>(roundTo(kind, largest / 127));
  for (int64_t d = 0; d < dims; ++d) {
    float code = scale > 0 ? static_cast<float>(head[d]) / scale : 0;
    codes[place(d)] = std::lrint(std::clamp(code, -127.0f, 127.0f));
  }
  return scale;
}

/// The values of a cache tensor as floats; codes are multiplied by their
/// scales. `which` is 0 for keys and 1 for values.
std::vector<double> numbersOf(const Tensor &cache, const Tensor *scales,
                              int64_t which) {
  if (!scales)
    return cache.floats().vec();
  llvm::ArrayRef<int64_t> shape = cache.shape(), codes = cache.ints();
  int64_t inner = shape[3], page = shape[2] * inner;
  int64_t tokens = scales->shape()[3];
  std::vector<double> numbers(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    int64_t place = which == 0 ? i % inner : i % page / inner;
    numbers[i] = static_cast<double>(codes[i]) *
                 scales->floats()[(i / page * 2 + which) * tokens + place];
  }
  return numbers;
}

LogicalResult evalCacheWrite(nn::CacheWriteOp op, const Inputs &in,
                             Outputs &out) {
  CacheView view(op, in);
  out[op.getNewKeys()] = in[op.getKeys()];
  out[op.getNewValues()] = in[op.getValues()];
  Tensor &keys = out[op.getNewKeys()], &values = out[op.getNewValues()];
  if (op.getScales())
    out[op.getNewScales()] = in[op.getScales()];
  auto write = [&](Tensor &cache, const double *from, int64_t scale,
                   llvm::function_ref<int64_t(int64_t)> place) {
    if (op.getScales())
      out.floats(op.getNewScales())[scale] =
          writeCodes(from, view.dims, in[op.getScales()].kind(),
                     cache.mutableInts(), place);
    else
      for (int64_t d = 0; d < view.dims; ++d)
        cache.mutableFloats()[place(d)] = from[d];
  };
  for (int64_t row = 0; row < view.rows; ++row)
    for (int64_t token = 0; token < view.tokens; ++token) {
      if (!view.isThere(row, token))
        continue;
      int64_t position = view.positions[row * view.tokens + token];
      for (int64_t head = 0; head < view.kv; ++head) {
        write(keys, view.head(1, row, token, head),
              view.scale(row, position, head, 0),
              [&](int64_t d) { return view.key(row, position, head, d); });
        write(values, view.head(2, row, token, head),
              view.scale(row, position, head, 1),
              [&](int64_t d) { return view.value(row, position, head, d); });
      }
    }
  return success();
}

/// A query, and the range of keys to which it attends.
struct Query {
  int64_t row, token, head;
  /// The query attends to the keys [first, count).
  int64_t first, count;
};

/// Calls `body` with each query of a token that exists (rows may be padded),
/// and with the index of the query among all queries.
void forQueries(const CacheView &view, nn::MaskAttr mask,
                llvm::function_ref<void(const Query &, int64_t)> body) {
  int64_t number = 0, window = mask.getWindow();
  for (int64_t row = 0; row < view.rows; ++row)
    for (int64_t token = 0; token < view.tokens; ++token)
      for (int64_t head = 0; head < view.heads; ++head, ++number) {
        if (!view.isThere(row, token))
          continue;
        int64_t count = view.positions[row * view.tokens + token] + 1;
        int64_t first = window ? std::max<int64_t>(count - window, 0) : 0;
        body({row, token, head, first, count}, number);
      }
}

/// The keys of `query` that the layout lets it see, in ascending order.
std::vector<int64_t> visibleKeys(const CacheView &view,
                                 const BlockLayout &layout,
                                 const Query &query) {
  int64_t position = view.positions[query.row * view.tokens + query.token];
  std::vector<int64_t> visible;
  for (int64_t key = query.first; key < query.count; ++key)
    if (layout.has(query.head, position, key))
      visible.push_back(key);
  return visible;
}

/// Computes the partial result of a query over its keys: the sum of values
/// weighted with 2^(s - m), the sum of these weights, and m. Here s is a key's
/// score times log2(e), and m is the largest s. If the layout hides all keys,
/// the sums are zero and m is the lowest f32.
void sumPart(nn::PagedAttentionOp op, const CacheView &view,
             const BlockLayout &layout, const double *keys,
             const double *values, const Query &query, double *part) {
  double scale = op.getHeads().getScale().convertToDouble();
  double cap = op.getHeads().getSoftcap().convertToDouble();
  int64_t kvHead = query.head / (view.heads / view.kv);
  const double *from = view.head(0, query.row, query.token, query.head);
  std::vector<double> scores;
  double largest = std::numeric_limits<float>::lowest();
  std::vector<int64_t> visible = visibleKeys(view, layout, query);
  for (int64_t key : visible) {
    double score = 0;
    for (int64_t d = 0; d < view.dims; ++d)
      score += from[d] * keys[view.key(query.row, key, kvHead, d)];
    score *= scale;
    if (cap > 0)
      score = cap * std::tanh(score / cap);
    scores.push_back(score * M_LOG2E);
    largest = std::max(largest, scores.back());
  }
  double *sum = &part[view.dims];
  part[view.dims + 1] = largest;
  for (auto [key, score] : llvm::zip(visible, scores)) {
    double power = std::exp2(score - largest);
    *sum += power;
    for (int64_t d = 0; d < view.dims; ++d)
      part[d] += power * values[view.value(query.row, key, kvHead, d)];
  }
}

/// Divides weighted sums of values by the sum of weights; the quotients are
/// zero if a query sees no key.
void divide(llvm::ArrayRef<double> sums, double weights, double *quotients) {
  for (auto [d, sum] : llvm::enumerate(sums))
    quotients[d] = weights > 0 ? sum / weights : 0;
}

LogicalResult evalPagedAttention(nn::PagedAttentionOp op, const Inputs &in,
                                 Outputs &out) {
  CacheView view(op, in);
  const Tensor *scales = op.getScales() ? &in[op.getScales()] : nullptr;
  std::vector<double> keys = numbersOf(in[op.getKeys()], scales, 0);
  std::vector<double> values = numbersOf(in[op.getValues()], scales, 1);
  BlockLayout layout(op, in, view.heads);
  double *output = out.floats(op.getOutput());
  int64_t length = op.getPartPages() * view.pageTokens, width = view.dims + 2;
  forQueries(view, op.getMask(), [&](const Query &query, int64_t number) {
    if (!op.getInParts()) {
      std::vector<double> whole(width);
      sumPart(op, view, layout, keys.data(), values.data(), query,
              whole.data());
      divide({whole.data(), size_t(view.dims)}, whole[view.dims],
             output + number * view.dims);
      return;
    }
    for (int64_t begin = query.first / length * length; begin < query.count;
         begin += length) {
      Query part = query;
      part.first = std::max(begin, query.first);
      part.count = std::min(begin + length, query.count);
      int64_t token = number / view.heads;
      int64_t place =
          (token * op.getNumParts() + begin / length) * view.heads + query.head;
      sumPart(op, view, layout, keys.data(), values.data(), part,
              output + place * width);
    }
  });
  return success();
}

LogicalResult evalPagedAttentionJoin(nn::PagedAttentionJoinOp op,
                                     const Inputs &in, Outputs &out) {
  llvm::ArrayRef<int64_t> positions = in.ints(op.getPositions()),
                          lengths = in.ints(op.getLengths());
  const double *parts = in.floats(op.getParts());
  double *output = out.floats(op.getOutput());
  int64_t tokens = in[op.getPositions()].shape()[1], heads = op.getHeads();
  int64_t dims = op.getHeadDim(), width = dims + 2;
  auto length = static_cast<int64_t>(op.getPartTokens());
  int64_t window = op.getMask().getWindow();
  for (auto [token, position] : llvm::enumerate(positions)) {
    auto number = static_cast<int64_t>(token);
    if (number % tokens >= lengths[number / tokens])
      continue;
    int64_t first = window ? std::max<int64_t>(position + 1 - window, 0) : 0;
    for (int64_t head = 0; head < heads; ++head) {
      auto partAt = [&](int64_t part) {
        return parts +
               ((number * op.getNumParts() + part) * heads + head) * width;
      };
      int64_t begin = first / length, end = position / length + 1;
      double largest = -INFINITY, whole = 0;
      for (int64_t part = begin; part < end; ++part)
        largest = std::max(largest, partAt(part)[dims + 1]);
      double *to = output + (number * heads + head) * dims;
      for (int64_t part = begin; part < end; ++part) {
        const double *from = partAt(part);
        double weight = std::exp2(from[dims + 1] - largest);
        whole += weight * from[dims];
        for (int64_t d = 0; d < dims; ++d)
          to[d] += weight * from[d];
      }
      divide({to, size_t(dims)}, whole, to);
    }
  }
  return success();
}

} // namespace

void attachCacheEvaluations(MLIRContext &context) {
  attachEvaluation<nn::CacheWriteOp, evalCacheWrite>(context);
  attachEvaluation<nn::PagedAttentionOp, evalPagedAttention>(context);
  attachEvaluation<nn::PagedAttentionJoinOp, evalPagedAttentionJoin>(context);
}

} // namespace heddle::eval
