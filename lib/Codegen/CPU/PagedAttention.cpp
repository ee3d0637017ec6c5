//===- PagedAttention.cpp - Paged attention with vectors ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.paged_attention with vectors: the online softmax of Milakov and Gimelshein
// (arXiv 1805.02867). For each query the code keeps m (the largest score so
// far), l (the sum of powers) and O (the output before division by l). For one
// page of keys after the other, from the first page that the query sees:
//
//   S = sum over d of q[d] K[d, :]    a vector with a lane for each key;
//       codes: times their scales
//   s = scale log2(e) S or, with a soft cap, cap log2(e) tanh(S scale / cap)
//   m' = max(m, s), a = 2^(m - m'), p = 2^(s - m')
//   l = a l + p,  O = a O + sum over keys of p[key] V[key, :]
//       codes: p[key] times the scale of the value
//
// The lines "codes" apply only if the cache holds int8 codes.
//
//===----------------------------------------------------------------------===//

#include "PagedEmitter.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

namespace {
class PagedVectors : public PagedEmitter {
public:
  PagedVectors(KernelEmitter &k, nn::PagedAttentionOp op)
      : PagedEmitter(k, op, sizeOfBlock(k, op)), lanes(parts.lanes),
        headVectors(parts.vectors), headVector(parts.headVector),
        queryRows(k.reserve(blockSize * queryRoom() * sizeof(float))),
        powers(k.reserve(blockSize * powerRoom() * sizeof(float))) {}

private:
  /// The number of queries of a block. The registers must hold the sums of all
  /// of these queries.
  static int64_t sizeOfBlock(KernelEmitter &k, nn::PagedAttentionOp op) {
    int64_t vectors =
        llvm::divideCeil(op.getHeadDim(), k.evaluator.laneCount());
    return std::clamp<int64_t>((k.target.hasAvx512 ? 20 : 10) / vectors, 1,
                               std::min<int64_t>(4, queriesOf(op)));
  }
  void emitBlock(Value row, Value kvHead, Value first, Value part,
                 Value output) override;
  /// Converts values loaded from the cache, int8 codes or floats, to f32.
  Value toFloats(Value loaded) {
    auto type = cast<VectorType>(loaded.getType());
    return scales ? b.create<arith::SIToFPOp>(type.clone(f32), loaded)
                  : b.widen(loaded);
  }
  Value scalesAt(Page in, int64_t first) {
    return b.widen(b.load(VectorType::get(pageTokens, scaleType),
                          b.advance(in.scales, scaleType, first),
                          bytesOf(scaleType)));
  }
  using Queries = ArrayRef<Query>;
  void attend(const QueryBlock &block, Queries queries, Value output);
  void attendPart(const QueryBlock &block, Queries queries, Value part,
                  Value output);
  Values sumPart(const QueryBlock &block, Queries blockQueries, Value part);
  void loadQuery(Value from, Value to);
  Values scores(Page in, Page next);
  Values addPage(Queries queries, Page in, Page next, Value number, Value count,
                 ValueRange carried);
  Values weighted(Page in, Page next, Value count, Values sums);
  void fetch(Value pointer, int64_t bytes);
  Value queryAt(int64_t index, Value feature) {
    return b.advance(queryRows, f32, b.add(feature, index * queryRoom()));
  }
  Value powersAt(int64_t index, Value key) {
    return b.advance(powers, f32, b.add(key, index * powerRoom()));
  }
  int64_t queryRoom() const { return llvm::alignTo<16>(dims); }
  int64_t powerRoom() const { return llvm::alignTo<16>(pageTokens); }

  int64_t lanes, headVectors;
  VectorType headVector;
  Value queryRows, powers; ///< Addresses in scratch, for a block's queries.
};
} // namespace

/// Copies a query to scratch memory as f32, multiplied by
/// `AttentionSpec::scoreFactor`, so that scores need no further scaling.
void PagedVectors::loadQuery(Value from, Value to) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value x = b.widen(b.load(type, b.advance(from, type, d), bytesOf(type)));
    b.store(b.create<arith::MulFOp>(x, number(spec.scoreFactor())),
            b.advance(to, f32, d), sizeof(float));
  });
}

void PagedVectors::fetch(Value pointer, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64)
    b.prefetch(b.advance(pointer, b.builder.getI8Type(), line));
}

/// The scores of all keys of a page for each query, in units of log 2. A score
/// is computed as four independent sums, each over every fourth feature, to
/// hide the latency of additions.
Values PagedVectors::scores(Page in, Page next) {
  constexpr int64_t chains = 4;
  auto loadType = VectorType::get(pageTokens, cacheType);
  auto step = [&](Value feature, int64_t chain, MutableArrayRef<Value> sums) {
    Value d = b.add(feature, chain);
    Value k = toFloats(
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
    scores.push_back(capped(score));
  }
  return scores;
}

/// Adds to `sums` the first `count` value vectors of a page, each multiplied by
/// 2^(s - m), where s is the score of its key.
Values PagedVectors::weighted(Page in, Page next, Value count, Values sums) {
  auto loadType = VectorType::get(lanes, cacheType);
  return b.forLoop(
      b.constant(0), count, 1, sums, [&](Value key, ValueRange carried) {
        Value first = b.mul(key, dims);
        if (next.values)
          fetch(b.advance(next.values, cacheType, first),
                dims * bytesOf(cacheType));
        Values now(carried);
        for (int64_t v = 0; v < headVectors; ++v) {
          Value from = b.advance(in.values, cacheType, b.add(first, v * lanes));
          Value value = toFloats(
              b.load(loadType, from, bytesOf(cacheType), parts.maskOf(v)));
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

/// Adds the keys and values of page `number` to the results so far. `carried`
/// has these results for each query (m, the largest score; l, the sum of
/// powers; the vectors of O, the output before division by l); returns their
/// new values. `count` is the end of the keys that some query of the block
/// sees. A key that a query does not see adds zero to the results of this
/// query.
Values PagedVectors::addPage(Queries queries, Page in, Page next, Value number,
                             Value count, ValueRange carried) {
  Values all = scores(in, next), largest, totals, sums;
  for (int64_t i = 0; i < blockSize; ++i) {
    ValueRange old = carried.slice(i * (2 + headVectors), 2 + headVectors);
    Value score = masked(all[i], number, queries[i]);
    largest.push_back(larger(foldLargest(score), old[0]));
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
  Value left = b.sub(count, b.mul(number, pageTokens));
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

/// Computes for each query of a block the partial result of attention to part
/// `part` of the keys: the largest score m, the sum of powers l, and the output
/// O before division by l. A part has a fixed number of pages.
Values PagedVectors::sumPart(const QueryBlock &block, Queries blockQueries,
                             Value part) {
  SmallVector<Query> queries(blockQueries);
  Value bits; // Those that some query has.
  if (layout)
    for (Query &query : queries) {
      query.bits = bitsOf(query.words, query.count, part);
      bits = bits ? b.create<arith::OrIOp>(bits, query.bits) : query.bits;
    }
  Values init;
  for (int64_t i = 0; i < blockSize; ++i) {
    init.push_back(number(std::numeric_limits<float>::lowest()));
    init.push_back(b.zeros(keyVector));
    init.append(headVectors, b.zeros(headVector));
  }
  PartPages pages = pagesOf(block, part, bits);
  Values sums = b.forLoop(
      pages.begin, pages.end, 1, init, [&](Value index, ValueRange carried) {
        Value number = numberOf(index);
        Page next; // Prompts find pages in the CPU's cache.
        if (tokens == 1)
          next = pageAt(block, pageAhead(block, pages, index));
        return addPage(queries, pageAt(block, number), next, number,
                       block.count, carried);
      });
  for (int64_t i = 0; i < blockSize; ++i) {
    Value &total = sums[i * (2 + headVectors) + 1];
    total = foldSum(total);
  }
  return sums;
}

/// Computes and stores the outputs of a block of queries.
void PagedVectors::attend(const QueryBlock &block, Queries queries,
                          Value output) {
  int64_t width = 2 + headVectors;
  Values init;
  for (int64_t i = 0; i < blockSize; ++i)
    init.append(parts.none());
  Values result = b.forLoop(
      b.div(block.firstPage, partPages), b.ceilDiv(block.pageCount, partPages),
      1, init, [&](Value part, ValueRange carried) {
        Values sums = sumPart(block, queries, part), joined;
        for (int64_t i = 0; i < blockSize; ++i)
          joined.append(parts.join(carried.slice(i * width, width),
                                   ValueRange(sums).slice(i * width, width)));
        return joined;
      });
  for (int64_t i = 0; i < blockSize; ++i)
    storeOutput(output, queries[i], [&] {
      return Values(ValueRange(result).slice(i * width, width));
    });
}

/// Computes and stores the partial results of attention of a block of queries
/// to one part of the cached keys and values.
void PagedVectors::attendPart(const QueryBlock &block, Queries queries,
                              Value part, Value output) {
  int64_t width = 2 + headVectors;
  Values sums = sumPart(block, queries, part);
  for (int64_t i = 0; i < blockSize; ++i) {
    b.ifThen(queries[i].isThere, [&] {
      parts.store(ValueRange(sums).slice(i * width, width),
                  partAt(output, queries[i], part));
    });
  }
}

void PagedVectors::emitBlock(Value row, Value kvHead, Value first, Value part,
                             Value output) {
  SmallVector<Query> queries;
  Values seen = seesNothing();
  for (int64_t i = 0; i < blockSize; ++i) {
    queries.push_back(query(row, kvHead, b.add(first, i)));
    seen = alsoSees(seen, queries.back());
  }
  QueryBlock block = blockOf(row, kvHead, first, seen);
  auto loadQueries = [&] {
    for (auto [i, query] : llvm::enumerate(queries))
      loadQuery(headOf(0, query.token, query.head),
                queryAt(static_cast<int64_t>(i), b.constant(0)));
  };
  if (!part) {
    loadQueries();
    attend(block, queries, output);
    return;
  }
  b.ifThen(b.less(firstPageOf(block, part), endOfPages(block, part)), [&] {
    loadQueries();
    attendPart(block, queries, part, output);
  });
}

LogicalResult emitPagedAttention(KernelEmitter &k, nn::PagedAttentionOp op) {
  if (isOnTiles(k, op))
    emitPagedTiles(k, op, k.results[0]);
  else
    PagedVectors(k, op).emit(k.results[0]);
  return k.finish();
}

} // namespace heddle::cpu
