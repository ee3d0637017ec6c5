//===- CacheKernel.cpp - Attention over a cache of pages ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For a query and one page of keys after the other, from the first that it sees
// on:
//
//   s = scale log2(e) sum over d of q[d] K[d, :]    a vector: one lane a key;
//       codes: times their scales
//   s = cap log2(e) tanh(s scale / cap) with a soft cap
//   m' = max(m, s), a = 2^(m - m'), p = 2^(s - m')
//   l = a l + p,  O = a O + sum over keys of p[key] V[key, :]
//       codes: p[key] times the scale of the value
//
// and at the end output = O / sum of the lanes of l: the online softmax of
// Milakov and Gimelshein, arXiv 1805.02867. Nothing of it depends on the number
// of threads or on other queries.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/Attention.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

namespace {
using Values = LoopBuilder::Values;

/// The tensors of both operations, by their addresses.
class CacheEmitter {
public:
  template <typename OpT>
  CacheEmitter(KernelEmitter &k, OpT op)
      : k(k), b(k.b), f32(b.builder.getF32Type()), packed(op.isPacked()),
        heads(op.getHeads().getCount()), kv(op.getHeads().getKv()),
        dims(op.getHeadDim()), pageTokens(op.getPageTokens()),
        rows(typeOf(op.getPositions()).getDimSize(0)),
        tokens(typeOf(op.getPositions()).getDimSize(1)),
        rowPages(typeOf(op.getPages()).getDimSize(1)),
        cacheType(typeOf(op.getKeys()).getElementType()),
        type(typeOf(op.getQkv()[0]).getElementType()),
        keys(k.pointerOf(op.getKeys())), values(k.pointerOf(op.getValues())),
        scaleType(op.getScales() ? typeOf(op.getScales()).getElementType()
                                 : Type()),
        scales(op.getScales() ? k.pointerOf(op.getScales()) : Value()),
        pages(k.pointerOf(op.getPages())),
        positions(k.pointerOf(op.getPositions())),
        lengths(k.pointerOf(op.getLengths())) {
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    int64_t width = (heads + 2 * kv) * dims;
    for (int64_t i = 0; i < 3; ++i)
      qkv[i] =
          packed
              ? Rows{b.advance(k.pointerOf(op.getQkv()[0]), type, offsets[i]),
                     width}
              : Rows{k.pointerOf(op.getQkv()[i]), op.getWidths()[i]};
  }

protected:
  static RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  unsigned bytesOf(Type element) const {
    return element.getIntOrFloatBitWidth() / 8;
  }
  Value number(double value) {
    return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(value));
  }
  Value loadInt(Value pointer, Value index) {
    Type i32 = b.builder.getI32Type();
    return b.create<arith::ExtSIOp>(
        b.builder.getI64Type(),
        b.load(i32, b.advance(pointer, i32, index), sizeof(int32_t)));
  }

  /// A token of the run: its row, its number among all, and its position.
  struct Token {
    Value row, index, position;
  };
  Value rowOf(Value token) { return b.div(token, tokens); }
  Value isThere(Value token) {
    Value row = rowOf(token);
    return b.less(b.sub(token, b.mul(row, tokens)), loadInt(lengths, row));
  }
  /// The page of a row that has the positions from `number` * N on.
  Value page(Value row, Value number) {
    return loadInt(pages, b.add(b.mul(row, rowPages), number));
  }
  /// Where a head's part of a page begins.
  Value pageOf(Value cache, Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), dims * pageTokens);
    return b.advance(cache, cacheType, place);
  }
  /// The scales of a head's keys in a page; those of its values stand behind.
  Value scalesOf(Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), 2 * pageTokens);
    return b.advance(scales, scaleType, place);
  }
  /// Where q, k or v of a token's head begins.
  Value headOf(int64_t which, Value token, Value head) {
    return b.advance(qkv[which].pointer, type,
                     b.add(b.mul(token, qkv[which].stride), b.mul(head, dims)));
  }

  KernelEmitter &k;
  LoopBuilder &b;
  FloatType f32;
  bool packed; ///< One tensor has q, k and v.
  int64_t heads, kv, dims, pageTokens, rows, tokens, rowPages;
  Type cacheType, type;
  Value keys, values;
  Type scaleType; ///< Null, as `scales`, where the cache holds numbers.
  Value scales;
  Value pages, positions, lengths;
  /// q, k and v of a token begin so many elements behind those of the last one.
  struct Rows {
    Value pointer;
    int64_t stride;
  };
  Rows qkv[3];
};

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

class WriteEmitter : public CacheEmitter {
public:
  using CacheEmitter::CacheEmitter;
  /// The thread's share of all heads of all tokens.
  void emit();
  void emitColumns(int64_t tensor, Value first, Value count, Value begin,
                   Value end);

private:
  /// Their numbers among q, k and v.
  enum Which : int64_t { OfKey = 1, OfValue = 2 };
  void write(Which which, Value token, Value head);
  void copy(Value from, Value to, int64_t stride);
  void encode(Value from, Value to, int64_t stride, Value scale);
  Value feature(Value from, Value d) {
    return b.widen(b.load(type, b.advance(from, type, d), bytesOf(type)));
  }
};
} // namespace

/// Copies the features of a head to places `stride` elements apart.
void WriteEmitter::copy(Value from, Value to, int64_t stride) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    b.store(b.narrow(feature(from, d), cacheType),
            b.advance(to, cacheType, b.mul(d, stride)), bytesOf(cacheType));
  });
}

/// Writes the features of a head as codes, and their scale.
void WriteEmitter::encode(Value from, Value to, int64_t stride, Value scale) {
  Value largest =
      b.forLoop(b.constant(0), b.constant(dims), 1, {number(0)},
                [&](Value d, ValueRange carried) -> Values {
                  Value size = b.create<math::AbsFOp>(feature(from, d));
                  return {b.create<arith::MaximumFOp>(carried[0], size)};
                })[0];
  Value unit =
      b.narrow(b.create<arith::DivFOp>(largest, number(127)), scaleType);
  b.store(unit, scale, bytesOf(scaleType));
  unit = b.widen(unit);
  Value isAny =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, unit, number(0));
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value code = b.create<arith::DivFOp>(feature(from, d), unit);
    code = b.create<arith::SelectOp>(isAny, code, number(0));
    code = b.create<arith::MinimumFOp>(
        b.create<arith::MaximumFOp>(code, number(-127)), number(127));
    code =
        b.create<arith::FPToSIOp>(cacheType, b.create<math::RoundEvenOp>(code));
    b.store(code, b.advance(to, cacheType, b.mul(d, stride)), 1);
  });
}

/// Writes the key or the value of a head of a token, if that is there.
void WriteEmitter::write(Which which, Value token, Value head) {
  b.ifThen(isThere(token), [&] {
    Value position = loadInt(positions, token);
    Value number = b.div(position, pageTokens);
    Value slot = b.sub(position, b.mul(number, pageTokens));
    Value in = page(rowOf(token), number), from = headOf(which, token, head);
    bool isKey = which == OfKey;
    int64_t stride = isKey ? pageTokens : 1;
    Value to = b.advance(pageOf(isKey ? keys : values, in, head), cacheType,
                         isKey ? slot : b.mul(slot, dims));
    if (!scales)
      return copy(from, to, stride);
    Value scale = b.advance(scalesOf(in, head), scaleType, slot);
    encode(from, to, stride,
           isKey ? scale : b.advance(scale, scaleType, pageTokens));
  });
}

void WriteEmitter::emit() {
  auto [begin, end] = k.share(rows * tokens * kv);
  b.forLoop(begin, end, 1, [&](Value item) {
    Value token = b.div(item, kv);
    Value head = b.sub(item, b.mul(token, kv));
    write(OfKey, token, head);
    write(OfValue, token, head);
  });
}

/// The heads in columns `begin` to `end` of tensor number `tensor` of q, k and
/// v, which may be all in one.
void WriteEmitter::emitColumns(int64_t tensor, Value first, Value count,
                               Value begin, Value end) {
  for (Which which : {OfKey, OfValue}) {
    if (!packed && tensor != which)
      continue;
    int64_t before = packed ? heads + (which == OfValue ? kv : 0) : 0;
    auto headAt = [&](Value column) {
      Value head = b.sub(b.div(column, dims), b.constant(before));
      head = b.create<arith::MaxSIOp>(head, b.constant(0));
      return b.min(head, b.constant(kv));
    };
    b.forLoop(first, b.add(first, count), 1, [&](Value token) {
      b.forLoop(headAt(begin), headAt(end), 1,
                [&](Value head) { write(which, token, head); });
    });
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
class PagedEmitter : public CacheEmitter {
public:
  PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op)
      : CacheEmitter(k, op), lanes(k.evaluator.laneCount()),
        headVectors(llvm::divideCeil(dims, lanes)), group(heads / kv),
        blockSize(
            std::clamp<int64_t>((k.target.hasAvx512 ? 20 : 10) / headVectors, 1,
                                std::min(maxBlock, tokens * group))),
        keyVector(VectorType::get(pageTokens, f32)),
        headVector(VectorType::get(lanes, f32)) {
    spec.scale = op.getHeads().getScale().convertToDouble();
    spec.softcap = op.getHeads().getSoftcap().convertToDouble();
    if (op.getMask().getWindow() < rowPages * pageTokens)
      spec.window = op.getMask().getWindow();
  }

  void emit(Value output);

private:
  static constexpr int64_t maxBlock = 4;
  /// Pages whose lines are fetched before they are read.
  static constexpr int64_t pagesAhead = 2;

  /// A query: a token of a row, and one of the heads that share keys.
  struct Query {
    Value token, head;
    Value exists;  ///< Null: always. The last block may have fewer.
    Value isThere; ///< And so is its token.
    Value count;   ///< It sees no key from this one on; 0 if it is not there.
    Value first;   ///< With a window: nor one before this one.
  };
  /// The keys and values of a head in a page, and their scales.
  struct Page {
    Value keys, values, scales;
  };
  Query query(Value row, Value kvHead, Value index);
  Page pageAt(Value row, Value kvHead, Value number) {
    Value in = page(row, number);
    return {pageOf(keys, in, kvHead), pageOf(values, in, kvHead),
            scales ? scalesOf(in, kvHead) : Value()};
  }
  /// What was loaded from the cache, as f32.
  Value numbers(Value loaded) {
    auto type = cast<VectorType>(loaded.getType());
    return scales ? b.create<arith::SIToFPOp>(type.clone(f32), loaded)
                  : b.widen(loaded);
  }
  Value scalesAt(Page in, int64_t first) {
    return b.widen(b.load(VectorType::get(pageTokens, scaleType),
                          b.advance(in.scales, scaleType, first),
                          bytesOf(scaleType)));
  }
  void attend(Value row, Value kvHead, Value first, Value output);
  void loadQuery(Value from, Value to);
  Values scores(Page in, Page next);
  Values addPage(ArrayRef<Query> queries, Page in, Page next, Value number,
                 Value count, ValueRange carried);
  Values weighted(Page in, Page next, Value count, Values sums);
  void storeQuery(const Query &query, ValueRange carried, Value output);
  Value largestOf(Value scores, Value scalar);
  void fetch(Value pointer, int64_t bytes);
  Value splat(Value scalar, VectorType type) {
    return b.create<vector::BroadcastOp>(type, scalar);
  }
  Value largerOf(Value x, Value y) { return b.select(b.less(x, y), y, x); }
  /// The lanes of vector `index` of a head that there are; null for all.
  Value maskOf(int64_t index) {
    int64_t left = dims - index * lanes;
    return left >= lanes ? Value() : b.mask(b.constant(left), lanes);
  }
  Value queryAt(int64_t index, Value feature) {
    return b.advance(queryRows, f32, b.add(feature, index * queryRoom()));
  }
  Value powersAt(int64_t index, Value key) {
    return b.advance(powers, f32, b.add(key, index * powerRoom()));
  }
  int64_t queryRoom() const { return llvm::alignTo<16>(dims); }
  int64_t powerRoom() const { return llvm::alignTo<16>(pageTokens); }

  int64_t lanes, headVectors;
  int64_t group;               ///< Heads that share keys.
  int64_t blockSize;           ///< Queries that read a page together.
  codegen::AttentionSpec spec; ///< What becomes of products and of the mask.
  VectorType keyVector, headVector;
  Value queryRows, powers; ///< In the thread's scratch, for each of a block.
};
} // namespace

/// Query `index` of a row and a head of keys.
PagedEmitter::Query PagedEmitter::query(Value row, Value kvHead, Value index) {
  Query query;
  if (tokens * group % blockSize != 0) {
    query.exists = b.less(index, b.constant(tokens * group));
    index = b.min(index, b.constant(tokens * group - 1));
  }
  Value token = b.div(index, group);
  query.head = b.add(b.mul(kvHead, group), b.sub(index, b.mul(token, group)));
  query.token = b.add(b.mul(row, tokens), token);
  query.isThere = b.less(token, loadInt(lengths, row));
  if (query.exists)
    query.isThere = b.create<arith::AndIOp>(query.isThere, query.exists);
  query.count = b.select(
      query.isThere, b.add(loadInt(positions, query.token), 1), b.constant(0));
  if (spec.window)
    query.first = b.sub(query.count, b.constant(spec.window));
  return query;
}

/// The query, times what its scores are multiplied by.
void PagedEmitter::loadQuery(Value from, Value to) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value x = b.widen(b.load(type, b.advance(from, type, d), bytesOf(type)));
    b.store(b.create<arith::MulFOp>(x, number(spec.scoreFactor())),
            b.advance(to, f32, d), sizeof(float));
  });
}

/// The largest of `scalar` and the scores of a page, by halves: the order does
/// not matter, and a chain of one lane after the other would take long.
Value PagedEmitter::largestOf(Value scores, Value scalar) {
  auto larger = [&](Value x, Value y) {
    Value isLarger = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y);
    return b.create<arith::SelectOp>(isLarger, x, y);
  };
  for (int64_t half = pageTokens / 2; half > 0; half /= 2) {
    SmallVector<int64_t> low(half), high(half);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), half);
    scores =
        larger(b.shuffle(scores, scores, low), b.shuffle(scores, scores, high));
  }
  return larger(b.create<vector::ExtractOp>(scores, 0), scalar);
}

void PagedEmitter::fetch(Value pointer, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64)
    b.prefetch(b.advance(pointer, b.builder.getI8Type(), line));
}

/// The scores of all keys of a page for each query, in units of log 2: four
/// sums, each of every fourth feature, do not wait for each other.
Values PagedEmitter::scores(Page in, Page next) {
  constexpr int64_t chains = 4;
  auto loadType = VectorType::get(pageTokens, cacheType);
  auto step = [&](Value feature, int64_t chain, MutableArrayRef<Value> sums) {
    Value d = b.add(feature, chain);
    Value k = numbers(
        b.load(loadType, b.advance(in.keys, cacheType, b.mul(d, pageTokens)),
               bytesOf(cacheType)));
    for (int64_t i = 0; i < blockSize; ++i) {
      Value q = splat(b.load(f32, queryAt(i, d), sizeof(float)), keyVector);
      Value &sum = sums[i * chains + chain];
      sum = b.create<vector::FMAOp>(k, q, sum);
    }
  };
  int64_t whole = dims / chains * chains;
  Values init(blockSize * chains, b.zeros(keyVector));
  Values sums = b.forLoop(
      b.constant(0), b.constant(whole), chains, init,
      [&](Value feature, ValueRange carried) {
        if (next.keys)
          fetch(b.advance(next.keys, cacheType, b.mul(feature, pageTokens)),
                chains * pageTokens * bytesOf(cacheType));
        Values now(carried);
        for (int64_t chain = 0; chain < chains; ++chain)
          step(feature, chain, now);
        return now;
      });
  for (int64_t rest = 0; rest < dims - whole; ++rest)
    step(b.constant(whole), rest, sums);
  Values scores;
  for (int64_t i = 0; i < blockSize * chains; i += chains) {
    Value left = b.create<arith::AddFOp>(sums[i], sums[i + 1]);
    Value right = b.create<arith::AddFOp>(sums[i + 2], sums[i + 3]);
    Value score = b.create<arith::AddFOp>(left, right);
    if (scales)
      score = b.create<arith::MulFOp>(score, scalesAt(in, 0));
    if (spec.softcap > 0)
      score =
          b.create<arith::MulFOp>(b.create<math::TanhOp>(score),
                                  splat(number(spec.capFactor()), keyVector));
    scores.push_back(score);
  }
  return scores;
}

/// `sums` + the first `count` values of a page, each times its powers.
Values PagedEmitter::weighted(Page in, Page next, Value count, Values sums) {
  auto loadType = VectorType::get(lanes, cacheType);
  return b.forLoop(
      b.constant(0), count, 1, sums, [&](Value key, ValueRange carried) {
        Value place = b.mul(key, dims);
        if (next.values)
          fetch(b.advance(next.values, cacheType, place),
                dims * bytesOf(cacheType));
        Values now(carried);
        for (int64_t v = 0; v < headVectors; ++v) {
          Value from = b.advance(in.values, cacheType, b.add(place, v * lanes));
          Value value =
              numbers(b.load(loadType, from, bytesOf(cacheType), maskOf(v)));
          for (int64_t i = 0; i < blockSize; ++i) {
            Value p =
                splat(b.load(f32, powersAt(i, key), sizeof(float)), headVector);
            Value &sum = now[i * headVectors + v];
            sum = b.create<vector::FMAOp>(p, value, sum);
          }
        }
        return now;
      });
}

/// What is carried from page to page: for each query m, l, and the vectors of
/// O. `count` keys are seen by the query that sees most; to the others those
/// that they do not see add zeros.
Values PagedEmitter::addPage(ArrayRef<Query> queries, Page in, Page next,
                             Value number, Value count, ValueRange carried) {
  Value first = b.mul(number, pageTokens);
  Value hidden = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      keyVector, -std::numeric_limits<float>::infinity()));
  Values all = scores(in, next), largest, totals, sums;
  for (int64_t i = 0; i < blockSize; ++i) {
    ValueRange old = carried.slice(i * (2 + headVectors), 2 + headVectors);
    Value left = b.sub(queries[i].count, first);
    Value score = b.select(b.mask(left, pageTokens), all[i], hidden);
    if (spec.window)
      score = b.select(b.mask(b.sub(queries[i].first, first), pageTokens),
                       hidden, score);
    largest.push_back(largestOf(score, old[0]));
    Value shrink = codegen::exp2(
        b.builder, b.loc, b.create<arith::SubFOp>(old[0], largest.back()));
    Value power = codegen::exp2(
        b.builder, b.loc,
        b.create<arith::SubFOp>(score, splat(largest.back(), keyVector)));
    Value weight = power;
    if (scales)
      weight = b.create<arith::MulFOp>(power, scalesAt(in, pageTokens));
    b.store(weight, powersAt(i, b.constant(0)), sizeof(float));
    totals.push_back(
        b.create<vector::FMAOp>(old[1], splat(shrink, keyVector), power));
    for (Value sum : old.drop_front(2))
      sums.push_back(b.create<arith::MulFOp>(sum, splat(shrink, headVector)));
  }
  Value left = b.sub(count, first);
  sums = weighted(in, next, b.min(left, b.constant(pageTokens)), sums);
  Values result;
  for (int64_t i = 0; i < blockSize; ++i) {
    result.push_back(largest[i]);
    result.push_back(totals[i]);
    llvm::append_range(
        result, ArrayRef<Value>(sums).slice(i * headVectors, headVectors));
  }
  return result;
}

void PagedEmitter::storeQuery(const Query &query, ValueRange carried,
                              Value output) {
  Value sum =
      b.create<vector::ReductionOp>(vector::CombiningKind::ADD, carried[1]);
  Value inverse = b.create<arith::DivFOp>(number(1), sum);
  Value place = b.mul(b.add(b.mul(query.token, heads), query.head), dims);
  Value target = b.advance(output, type, place);
  for (int64_t v = 0; v < headVectors; ++v) {
    Value value =
        b.create<arith::MulFOp>(carried[2 + v], splat(inverse, headVector));
    value = b.select(query.isThere, value, b.zeros(headVector));
    b.store(b.narrow(value, type), b.advance(target, type, v * lanes),
            bytesOf(type), maskOf(v));
  }
}

/// The queries of a row and a head of keys from `first` on.
void PagedEmitter::attend(Value row, Value kvHead, Value first, Value output) {
  SmallVector<Query> queries;
  Value count = b.constant(0), firstKey = b.constant(0);
  if (spec.window) // None, until there is a query.
    firstKey = b.constant(rowPages * pageTokens);
  for (int64_t i = 0; i < blockSize; ++i) {
    queries.push_back(query(row, kvHead, b.add(first, i)));
    count = largerOf(count, queries.back().count);
    if (spec.window)
      firstKey = b.select(queries.back().isThere,
                          b.min(firstKey, queries.back().first), firstKey);
    loadQuery(headOf(0, queries.back().token, queries.back().head),
              queryAt(i, b.constant(0)));
  }
  Values init;
  for (int64_t i = 0; i < blockSize; ++i) {
    init.push_back(number(std::numeric_limits<float>::lowest()));
    init.push_back(b.zeros(keyVector));
    init.append(headVectors, b.zeros(headVector));
  }
  Value pageCount = b.ceilDiv(count, pageTokens);
  // Pages behind the windows may be somebody else's by now.
  Value firstPage = b.div(largerOf(firstKey, b.constant(0)), pageTokens);
  Values result = b.forLoop(
      firstPage, pageCount, 1, init, [&](Value number, ValueRange carried) {
        Page next; // The tokens of a prompt find the pages in a cache.
        if (tokens == 1)
          next = pageAt(row, kvHead,
                        b.min(b.add(number, pagesAhead),
                              b.sub(pageCount, b.constant(1))));
        return addPage(queries, pageAt(row, kvHead, number), next, number,
                       count, carried);
      });
  for (int64_t i = 0; i < blockSize; ++i) {
    ValueRange own =
        ValueRange(result).slice(i * (2 + headVectors), 2 + headVectors);
    if (queries[i].exists)
      b.ifThen(queries[i].exists, [&] { storeQuery(queries[i], own, output); });
    else
      storeQuery(queries[i], own, output);
  }
}

void PagedEmitter::emit(Value output) {
  queryRows = k.scratch;
  powers = b.advance(k.scratch, f32, blockSize * queryRoom());
  k.scratchBytes =
      blockSize * (queryRoom() + powerRoom()) * int64_t(sizeof(float));
  // Adjacent blocks of a head go to different threads: later tokens see more
  // keys, and those of a head stay in a cache.
  int64_t blocks = llvm::divideCeil(tokens * group, blockSize);
  int64_t items = rows * kv * blocks;
  Value count = b.div(b.add(b.sub(b.constant(items - 1), k.thread), k.threads),
                      k.threads);
  b.forLoop(b.constant(0), count, 1, [&](Value turn) {
    Value item = b.add(b.mul(turn, k.threads), k.thread);
    Value place = b.div(item, blocks);
    Value block = b.sub(item, b.mul(place, blocks));
    Value row = b.div(place, kv);
    attend(row, b.sub(place, b.mul(row, kv)), b.mul(block, blockSize), output);
  });
}

LogicalResult emitPagedAttention(KernelEmitter &k, nn::PagedAttentionOp op) {
  PagedEmitter(k, op).emit(k.results[0]);
  return k.finish();
}

LogicalResult emitCacheKernel(KernelEmitter &k) {
  Block &body = k.kernel.getBody().front();
  auto write = dyn_cast<nn::CacheWriteOp>(body.front());
  if (!write || write->getNextNode() != body.getTerminator())
    return k.kernel.emitError(
        "holds no cache alone; its generator is not \"cache\"");
  if (failed(verifyInPlace(k, write)))
    return failure();
  WriteEmitter(k, write).emit();
  return k.finish();
}

LogicalResult verifyInPlace(KernelEmitter &k, nn::CacheWriteOp write) {
  SmallVector<Value> written = {write.getKeys(), write.getValues()};
  if (write.getScales())
    written.push_back(write.getScales());
  for (auto [result, operand] : llvm::zip(write.getResults(), written))
    if (k.resultPointer(result) != k.pointerOf(operand))
      return k.kernel.emitError("does not write its cache in place");
  return success();
}

void emitCacheColumns(KernelEmitter &k, nn::CacheWriteOp write, Value tensor,
                      Value first, Value count, Value begin, Value end) {
  auto found = llvm::find(write.getQkv(), tensor);
  WriteEmitter(k, write).emitColumns(
      std::distance(write.getQkv().begin(), found), first, count, begin, end);
}

} // namespace heddle::cpu
