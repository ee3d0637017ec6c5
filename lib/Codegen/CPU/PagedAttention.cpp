//===- PagedAttention.cpp - Attention over a cache of pages ---------------===//
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
// the online softmax of Milakov and Gimelshein, arXiv 1805.02867. Pages are
// summed so in parts of a fixed number of positions, and parts are joined in
// order (PartEmitter.h), here or by a kernel of its own: nothing depends on the
// number of threads or on other queries.
//
//===----------------------------------------------------------------------===//

#include "CacheEmitter.h"
#include "PartEmitter.h"
#include "heddle/Codegen/Common/Attention.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

namespace {
class PagedEmitter : public CacheEmitter {
public:
  PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op)
      : CacheEmitter(k, op), parts(k, dims), lanes(parts.lanes),
        headVectors(parts.vectors), group(heads / kv),
        partPages(op.getPartPages()), numParts(op.getNumParts()),
        inParts(op.getInParts()),
        blockSize(
            std::clamp<int64_t>((k.target.hasAvx512 ? 20 : 10) / headVectors, 1,
                                std::min(maxBlock, tokens * group))),
        keyVector(VectorType::get(pageTokens, f32)),
        headVector(parts.headVector) {
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
  /// Queries that read a page together, and the pages that they see.
  struct QueryBlock {
    Value row, kvHead;
    SmallVector<Query> queries;
    Value count; ///< Of the query that sees most.
    Value firstPage, pageCount;
  };
  QueryBlock blockAt(Value row, Value kvHead, Value first);
  void attend(const QueryBlock &block, Value output);
  void attendPart(const QueryBlock &block, Value part, Value output);
  Values sumPart(const QueryBlock &block, Value part);
  Value firstPageOf(const QueryBlock &block, Value part);
  Value endOfPages(const QueryBlock &block, Value part);
  Value pageAhead(const QueryBlock &block, Value page, Value end);
  void loadQuery(Value from, Value to);
  Values scores(Page in, Page next);
  Values addPage(ArrayRef<Query> queries, Page in, Page next, Value number,
                 Value count, ValueRange carried);
  Values weighted(Page in, Page next, Value count, Values sums);
  Value fold(Value keys, llvm::function_ref<Value(Value, Value)> combine);
  void fetch(Value pointer, int64_t bytes);
  Value splat(Value scalar, VectorType type) {
    return parts.splat(scalar, type);
  }
  Value queryAt(int64_t index, Value feature) {
    return b.advance(queryRows, f32, b.add(feature, index * queryRoom()));
  }
  Value powersAt(int64_t index, Value key) {
    return b.advance(powers, f32, b.add(key, index * powerRoom()));
  }
  int64_t queryRoom() const { return llvm::alignTo<16>(dims); }
  int64_t powerRoom() const { return llvm::alignTo<16>(pageTokens); }

  PartEmitter parts;
  int64_t lanes, headVectors;
  int64_t group;               ///< Heads that share keys.
  int64_t partPages, numParts; ///< Pages of a part, parts of a row.
  bool inParts;                ///< They are the results.
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

/// The lanes of `keys` as one number, by halves: a chain of one lane after the
/// other would take long.
Value PagedEmitter::fold(Value keys,
                         llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t half = pageTokens / 2; half > 0; half /= 2) {
    SmallVector<int64_t> low(half), high(half);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), half);
    keys = combine(b.shuffle(keys, keys, low), b.shuffle(keys, keys, high));
  }
  return b.create<vector::ExtractOp>(keys, 0);
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
          Value value = numbers(
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
    auto larger = [&](Value x, Value y) { return parts.larger(x, y); };
    largest.push_back(larger(fold(score, larger), old[0]));
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

/// The queries of a row and a head of keys from `first` on.
PagedEmitter::QueryBlock PagedEmitter::blockAt(Value row, Value kvHead,
                                               Value first) {
  QueryBlock block{row, kvHead, {}, b.constant(0), {}, {}};
  Value firstKey = b.constant(0);
  if (spec.window) // None, until there is a query.
    firstKey = b.constant(rowPages * pageTokens);
  for (int64_t i = 0; i < blockSize; ++i) {
    block.queries.push_back(query(row, kvHead, b.add(first, i)));
    const Query &last = block.queries.back();
    block.count = largerOf(block.count, last.count);
    if (spec.window)
      firstKey = b.select(last.isThere, b.min(firstKey, last.first), firstKey);
  }
  block.pageCount = b.ceilDiv(block.count, pageTokens);
  // Pages behind the windows may be somebody else's by now.
  block.firstPage = b.div(largerOf(firstKey, b.constant(0)), pageTokens);
  return block;
}

Value PagedEmitter::firstPageOf(const QueryBlock &block, Value part) {
  return largerOf(b.mul(part, partPages), block.firstPage);
}
Value PagedEmitter::endOfPages(const QueryBlock &block, Value part) {
  return b.min(b.mul(b.add(part, 1), partPages), block.pageCount);
}

/// The page that the thread reads `pagesAhead` pages after another one of a
/// part that ends before page `end`. Where parts are shared, those that follow
/// are of other threads.
Value PagedEmitter::pageAhead(const QueryBlock &block, Value page, Value end) {
  Value ahead = b.add(page, pagesAhead);
  if (inParts) {
    Value others = b.mul(b.sub(k.threads, b.constant(1)), partPages);
    ahead = b.select(b.less(ahead, end), ahead, b.add(ahead, others));
  }
  return b.min(ahead, b.sub(block.pageCount, b.constant(1)));
}

/// What the pages of a part give each query of a block.
Values PagedEmitter::sumPart(const QueryBlock &block, Value part) {
  Values init;
  for (int64_t i = 0; i < blockSize; ++i) {
    init.push_back(number(std::numeric_limits<float>::lowest()));
    init.push_back(b.zeros(keyVector));
    init.append(headVectors, b.zeros(headVector));
  }
  Value end = endOfPages(block, part);
  Values sums = b.forLoop(
      firstPageOf(block, part), end, 1, init,
      [&](Value number, ValueRange carried) {
        Page next; // The tokens of a prompt find the pages in a cache.
        if (tokens == 1)
          next = pageAt(block.row, block.kvHead, pageAhead(block, number, end));
        return addPage(block.queries, pageAt(block.row, block.kvHead, number),
                       next, number, block.count, carried);
      });
  auto sum = [&](Value x, Value y) -> Value {
    return b.create<arith::AddFOp>(x, y);
  };
  for (int64_t i = 0; i < blockSize; ++i) {
    Value &total = sums[i * (2 + headVectors) + 1];
    total = fold(total, sum);
  }
  return sums;
}

/// The outputs of a block of queries.
void PagedEmitter::attend(const QueryBlock &block, Value output) {
  int64_t width = 2 + headVectors;
  Values init;
  for (int64_t i = 0; i < blockSize; ++i)
    init.append(parts.none());
  Values result = b.forLoop(
      b.div(block.firstPage, partPages), b.ceilDiv(block.pageCount, partPages),
      1, init, [&](Value part, ValueRange carried) {
        Values sums = sumPart(block, part), joined;
        for (int64_t i = 0; i < blockSize; ++i)
          joined.append(parts.join(carried.slice(i * width, width),
                                   ValueRange(sums).slice(i * width, width)));
        return joined;
      });
  for (int64_t i = 0; i < blockSize; ++i) {
    const Query &query = block.queries[i];
    Value place = b.mul(b.add(b.mul(query.token, heads), query.head), dims);
    auto store = [&] {
      parts.storeOutput(ValueRange(result).slice(i * width, width),
                        query.isThere, b.advance(output, type, place), type);
    };
    if (query.exists)
      b.ifThen(query.exists, store);
    else
      store();
  }
}

/// What a part gives the queries that see some of it.
void PagedEmitter::attendPart(const QueryBlock &block, Value part,
                              Value output) {
  int64_t width = 2 + headVectors;
  Values sums = sumPart(block, part);
  for (int64_t i = 0; i < blockSize; ++i) {
    const Query &query = block.queries[i];
    Value place = b.add(b.mul(query.token, numParts), part);
    place = b.add(b.mul(place, heads), query.head);
    b.ifThen(query.isThere, [&] {
      parts.store(ValueRange(sums).slice(i * width, width),
                  b.advance(output, f32, b.mul(place, parts.size())));
    });
  }
}

void PagedEmitter::emit(Value output) {
  queryRows = k.scratch;
  powers = b.advance(k.scratch, f32, blockSize * queryRoom());
  k.scratchBytes =
      blockSize * (queryRoom() + powerRoom()) * int64_t(sizeof(float));
  int64_t blocks = llvm::divideCeil(tokens * group, blockSize);
  int64_t pieces = inParts ? numParts : 1;
  int64_t items = rows * kv * blocks * pieces;
  auto emitItem = [&](Value item) {
    Value number = b.div(item, pieces);
    Value place = b.div(number, blocks);
    Value first = b.mul(b.sub(number, b.mul(place, blocks)), blockSize);
    Value row = b.div(place, kv);
    QueryBlock block = blockAt(row, b.sub(place, b.mul(row, kv)), first);
    auto loadQueries = [&] {
      for (auto [i, query] : llvm::enumerate(block.queries))
        loadQuery(headOf(0, query.token, query.head),
                  queryAt(static_cast<int64_t>(i), b.constant(0)));
    };
    if (!inParts) {
      loadQueries();
      attend(block, output);
      return;
    }
    Value part = b.sub(item, b.mul(number, pieces));
    b.ifThen(b.less(firstPageOf(block, part), endOfPages(block, part)), [&] {
      loadQueries();
      attendPart(block, part, output);
    });
  };
  // Blocks of a head are taken together, whose keys stay in a cache.
  if (!inParts)
    return k.self().forTaken(b, items, emitItem);
  // Adjacent parts of a row go to different threads, which know whose is next.
  Value count = b.div(b.add(b.sub(b.constant(items - 1), k.thread), k.threads),
                      k.threads);
  b.forLoop(b.constant(0), count, 1, [&](Value turn) {
    emitItem(b.add(b.mul(turn, k.threads), k.thread));
  });
}

LogicalResult emitPagedAttention(KernelEmitter &k, nn::PagedAttentionOp op) {
  PagedEmitter(k, op).emit(k.results[0]);
  return k.finish();
}

} // namespace heddle::cpu
