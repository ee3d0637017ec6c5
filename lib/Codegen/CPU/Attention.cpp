//===- Attention.cpp - The forward pass of attention ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forward pass of nn.attention. For each query the code keeps m (the
// largest score so far), l (the sum of probabilities) and O (the output before
// division by l). For a block of queries, the code loops over the blocks of
// keys and computes for each of them:
//
//   S = K (scale log2(e) Q)^T       transposed scores, in units of log 2
//   m' = max(m, column maxima of S), a = 2^(m - m')
//   P = 2^(S - m'), l = a l + column sums of P
//   O = a O + P^T V
//
// and at the end output = O / l, lse = m ln(2) + ln(l).
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::cpu {

namespace {
constexpr int64_t forwardKeyBlock = 120;

/// The layout of a thread's scratch memory in the forward pass, with offsets in
/// words of 32 bits.
struct ForwardScratch {
  explicit ForwardScratch(const AttentionBlocking &blocking)
      : layout(blocking, plan) {
    keys = plan.take(blocking.keys * blocking.naturalRow());
    values = plan.take(blocking.keys * blocking.naturalRow());
    pairedValues = blocking.pairs == 1
                       ? values
                       : plan.take(blocking.keys / 2 * blocking.headRow());
    queries = plan.take(blocking.queries() * blocking.naturalRow());
    queriesTransposed = plan.take(blocking.queries() * blocking.naturalRow());
    scores = plan.take(blocking.scorePanel());
    sums = plan.take(blocking.queries() * blocking.headRow());
    maximum = plan.take(blocking.queries());
    newMaximum = plan.take(blocking.queries());
    normalizer = plan.take(blocking.queries());
    factor = plan.take(blocking.queries());
  }
  ScratchPlan plan;
  LayoutScratch layout;
  int64_t keys, values, pairedValues, queries, queriesTransposed, scores, sums;
  int64_t maximum, newMaximum, normalizer, factor;
};

class ForwardEmitter : public AttentionEmitter {
public:
  ForwardEmitter(LoopBuilder &b, const AttentionSpec &spec,
                 const AttentionBlocking &blocking, Value scratch);

  void emit(ValueRange qkv, Value output, Value lse,
            const AttentionRandom &random, const AttentionKeys &present,
            Value thread, Value threads);

private:
  /// Packs the keys and values from `first` on: `rows` of them, and then zeros
  /// up to `total`.
  void packKeysAndValues(Value batch, Value kvHead, Value first, Value rows,
                         Value total);
  void queryBlock(Value batch, Value kvHead, Value head, Value firstQuery);
  void scoreTile(Value firstQuery, Value key, const Tile &tile, bool masked);
  void softmax(Value firstQuery, const KeyRange &keys);
  Value exponentials(const Panel &scores, const KeyRange &range, Value maximum,
                     Value query);
  Value exponentials(const Panel &scores, const KeyRun &run, Value maximum,
                     Value query, Value sum);
  void weightedSum(const KeyRange &keys);
  void finish(Value batch, Value head, Value firstQuery, Value rows);

  Heads q, k, v, out;
  Value lsePointer, probability;
  Panel keys, values, pairedValues, queries, queriesTransposed, scores, sums;
  Panel maximum, newMaximum, normalizer, factor;
  LayoutScratch layoutScratch;
};

ForwardEmitter::ForwardEmitter(LoopBuilder &b, const AttentionSpec &spec,
                               const AttentionBlocking &blocking, Value scratch)
    : AttentionEmitter(b, spec, blocking, scratch),
      layoutScratch(ForwardScratch(blocking).layout) {
  ForwardScratch at(blocking);
  int64_t naturalRow = blocking.naturalRow(), headRow = blocking.headRow();
  int64_t queryRow = blocking.queries();
  keys = panel(at.keys, naturalRow);
  values = panel(at.values, naturalRow);
  pairedValues = panel(at.pairedValues, headRow);
  queries = panel(at.queries, naturalRow);
  queriesTransposed = panel(at.queriesTransposed, queryRow);
  scores = panel(at.scores, queryRow);
  sums = panel(at.sums, headRow);
  maximum = panel(at.maximum, queryRow);
  newMaximum = panel(at.newMaximum, queryRow);
  normalizer = panel(at.normalizer, queryRow);
  factor = panel(at.factor, queryRow);
}

void ForwardEmitter::emit(ValueRange qkv, Value output, Value lse,
                          const AttentionRandom &random,
                          const AttentionKeys &present, Value thread,
                          Value threads) {
  auto heads = splitHeads(qkv);
  q = heads[0];
  k = heads[1];
  v = heads[2];
  out = queryHeads(output);
  lsePointer = b.pointerTo(lse);
  prepareKeys(present, layoutScratch);
  if (spec.p > 0)
    prepareRandom(random);

  // The unit of work is a block of queries of one head. A thread computes
  // adjacent units. It copies keys and values to packed panels only if its
  // previous unit did not read the same ones. With a layout it copies a block
  // of keys when a query sees it, so that the block is still in a cache.
  int64_t blocks = blocking.queryBlocks;
  auto [begin, end] = share(thread, threads, spec.heads * blocks);
  Value none = b.constant(-1);
  b.forLoop(begin, end, 1, none, [&](Value item, ValueRange packed) -> Values {
    Value pair = b.div(item, blocks);
    Value block = b.sub(item, b.mul(pair, blocks));
    if (spec.causal && !spec.block) {
      // Alternate blocks with few and with many visible keys, so that threads
      // get equal work.
      Value half = b.div(block, 2);
      Value isOdd = b.less(b.mul(half, 2), block);
      block = b.select(isOdd, b.sub(b.constant(blocks - 1), half), half);
    }
    Value batch = b.div(pair, spec.heads);
    Value head = b.sub(pair, b.mul(batch, spec.heads));
    Value kvHead = b.div(head, spec.heads / spec.kvHeads);
    Value kvPair = b.add(b.mul(batch, spec.kvHeads), kvHead);
    beginRow(batch);
    Value isPacked = b.equal(kvPair, packed[0]);
    b.ifThen(b.equal(isPacked,
                     b.create<arith::ConstantOp>(b.builder.getBoolAttr(false))),
             [&] {
               if (spec.block)
                 forgetKeys();
               else
                 packKeysAndValues(batch, kvHead, b.constant(0),
                                   visible->count(), paddedKeys());
             });
    queryBlock(batch, kvHead, head, b.mul(block, blocking.queries()));
    return {kvPair};
  });
}

void ForwardEmitter::packKeysAndValues(Value batch, Value kvHead, Value first,
                                       Value rows, Value total) {
  Panel to = rowsFrom(values, first);
  packRows(rowPointer(k, batch, kvHead, first), k.row, rows, total,
           rowsFrom(keys, first));
  packRows(rowPointer(v, batch, kvHead, first), v.row, rows, total, to);
  pairRows(to, total, rowsFrom(pairedValues, pairsOf(first)));
}

void ForwardEmitter::queryBlock(Value batch, Value kvHead, Value head,
                                Value firstQuery) {
  Value rows =
      minimum(b.sub(b.constant(spec.seq), firstQuery), blocking.queries());
  packRows(rowPointer(q, batch, head, firstQuery), q.row, rows,
           b.constant(blocking.queries()), queries);
  if (spec.block) {
    prefetchRows(q, batch, head, b.add(firstQuery, blocking.queries()),
                 blocking.queries());
    prefetchRows(out, batch, head, firstQuery, blocking.queries());
  }
  transposeQueries(queries, spec.scoreFactor(), queriesTransposed);
  double lowest = std::numeric_limits<float>::lowest();
  fill(maximum, 1, lowest);
  fill(newMaximum, 1, lowest);
  fill(normalizer, 1, 0.0);
  fill(sums, blocking.queries(), 0.0);
  if (spec.p > 0)
    probability = firstProbability(batch, head);
  auto pack = [&](Value key) {
    packKeysAndValues(batch, kvHead, key, rowsOfBlock(key),
                      b.constant(spec.block));
    Value next = b.add(key, spec.block);
    prefetchRows(k, batch, kvHead, next, spec.block);
    prefetchRows(v, batch, kvHead, next, spec.block);
  };
  forKeyRanges(head, firstQuery, pack, [&](const KeyRange &keys) {
    forScoreTiles(keys, [&](const Tile &tile, Value key, bool masked) {
      scoreTile(firstQuery, key, tile, masked);
    });
    softmax(firstQuery, keys);
    weightedSum(keys);
  });
  finish(batch, head, firstQuery, rows);
}

void ForwardEmitter::scoreTile(Value firstQuery, Value key, const Tile &tile,
                               bool masked) {
  Values init(tile.rows * tile.vectors, splat(0.0));
  Values products = multiply(tile, rowsFrom(keys, key),
                             columnsFrom(queriesTransposed, tile.column),
                             headDepth(), 4, init);
  Panel target = columnsFrom(rowsFrom(scores, tile.row), tile.column);
  Panel maxima = columnsFrom(newMaximum, tile.column);
  Value hidden = splat(-std::numeric_limits<float>::infinity());
  for (int64_t vec = 0; vec < tile.vectors; ++vec) {
    Value largest = loadVector(vectorAt(maxima, 0, vec));
    Value query = b.add(b.add(firstQuery, tile.column), vec * blocking.lanes);
    for (int64_t r = 0; r < tile.rows; ++r) {
      Value score = scoreOf(products[r * tile.vectors + vec]);
      if (masked)
        score = b.select(seen(query, b.add(key, r)), score, hidden);
      largest = greater(score, largest);
      storeVector(score, vectorAt(target, r, vec));
    }
    storeVector(largest, vectorAt(maxima, 0, vec));
  }
}

void ForwardEmitter::softmax(Value firstQuery, const KeyRange &keys) {
  Value zero = b.constant(0), end = b.constant(blocking.queries());
  b.forLoop(zero, end, blocking.lanes, [&](Value column) {
    auto at = [&](const Panel &panel) {
      return b.advance(panel.pointer, f32, column);
    };
    Value largest = loadVector(at(newMaximum));
    Value change = b.create<arith::SubFOp>(loadVector(at(maximum)), largest);
    Value scale = exp2(change);
    storeVector(largest, at(maximum));
    storeVector(scale, at(factor));
    Value sum = exponentials(columnsFrom(scores, column), keys, largest,
                             b.add(firstQuery, column));
    Value old = loadVector(at(normalizer));
    storeVector(b.create<vector::FMAOp>(old, scale, sum), at(normalizer));
  });
}

/// Replaces the scores of a vector of queries and a range of keys by
/// probabilities (not yet normalized). Returns their sum over the keys, before
/// dropout.
Value ForwardEmitter::exponentials(const Panel &scores, const KeyRange &range,
                                   Value maximum, Value query) {
  return forRuns(range, splat(0.0),
                 [&](const KeyRun &run, ValueRange sum) -> Values {
                   return {exponentials(scores, run, maximum, query, sum[0])};
                 })[0];
}

Value ForwardEmitter::exponentials(const Panel &scores, const KeyRun &run,
                                   Value maximum, Value query, Value sum) {
  auto body = [&](Value row, ValueRange carried) -> Values {
    Panel rows = rowsFrom(scores, row);
    Values powers, kept;
    for (int64_t r = 0; r < blocking.keyUnit; ++r) {
      Value score = loadVector(vectorAt(rows, r, 0));
      powers.push_back(exp2(b.create<arith::SubFOp>(score, maximum)));
    }
    for (int64_t r = 0; spec.p > 0 && r < blocking.keyUnit; r += 4)
      kept.append(keep(probability, query, b.add(b.add(run.offset, row), r)));
    auto value = [&](int64_t r) {
      return kept.empty() ? powers[r]
                          : b.select(kept[r], powers[r], splat(0.0));
    };
    // Probabilities overwrite scores. With bf16 two rows become one row of
    // pairs, so only rows of scores that have already been read are
    // overwritten.
    Panel target = rowsFrom(scores, pairsOf(row));
    for (int64_t r = 0; r < blocking.keyUnit; r += blocking.pairs) {
      Value pointer = vectorAt(target, r / blocking.pairs, 0);
      if (blocking.pairs == 1)
        storeVector(value(r), pointer);
      else
        storePaired(value(r), value(r + 1), pointer);
    }
    while (powers.size() > 1) {
      Value last = powers.pop_back_val();
      Value &middle = powers[powers.size() / 2];
      middle = b.create<arith::AddFOp>(middle, last);
    }
    return {b.create<arith::AddFOp>(carried[0], powers[0])};
  };
  return b.forLoop(run.begin, run.end, blocking.keyUnit, sum, body)[0];
}

void ForwardEmitter::weightedSum(const KeyRange &range) {
  RowRange rows;
  rows.fixed = blocking.queries();
  forTiles(rows, blocking.headGroups, [&](const Tile &tile) {
    Panel target = columnsFrom(rowsFrom(sums, tile.row), tile.column);
    Panel factors = columnsFrom(factor, tile.row);
    Values init;
    for (int64_t r = 0; r < tile.rows; ++r) {
      Value scale = loadSplat(b.advance(factors.pointer, f32, r));
      for (int64_t vec = 0; vec < tile.vectors; ++vec)
        init.push_back(b.create<arith::MulFOp>(
            loadVector(vectorAt(target, r, vec)), scale));
    }
    Values products =
        forRuns(range, init, [&](const KeyRun &run, ValueRange sums) {
          Panel left =
              columnsFrom(rowsFrom(scores, pairsOf(run.begin)), tile.row);
          Value key = b.add(run.offset, run.begin);
          Panel right =
              columnsFrom(rowsFrom(pairedValues, pairsOf(key)), tile.column);
          return multiply(tile, transposed(left), right,
                          pairsOf(b.sub(run.end, run.begin)),
                          blocking.keyUnroll(), sums);
        });
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t vec = 0; vec < tile.vectors; ++vec)
        storeVector(products[r * tile.vectors + vec], vectorAt(target, r, vec));
  });
}

void ForwardEmitter::finish(Value batch, Value head, Value firstQuery,
                            Value rows) {
  Value index = b.add(b.mul(batch, spec.heads), head);
  Value lse =
      b.advance(lsePointer, f32, b.add(b.mul(index, spec.seq), firstQuery));
  Value zero = b.constant(0);
  b.forLoop(
      zero, b.constant(blocking.queries()), blocking.lanes, [&](Value column) {
        auto at = [&](const Panel &panel) {
          return b.advance(panel.pointer, f32, column);
        };
        Value sum = loadVector(at(normalizer));
        Value log = b.create<math::LogOp>(sum);
        Value result =
            b.create<vector::FMAOp>(loadVector(at(maximum)), splat(M_LN2), log);
        Value mask = b.mask(b.sub(rows, column), blocking.lanes);
        Value inverse =
            b.create<arith::DivFOp>(splat(1.0 / (1.0 - spec.p)), sum);
        if (visible->maySeeNoKey()) {
          Value seesAny = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT,
                                                  sum, splat(0.0));
          double lowest = std::numeric_limits<float>::lowest();
          result = b.select(seesAny, result, splat(lowest));
          inverse = b.select(seesAny, inverse, splat(0.0));
        }
        b.store(result, b.advance(lse, f32, column), 4, mask);
        storeVector(inverse, at(factor));
      });
  b.forLoop(zero, rows, 1, [&](Value row) {
    Panel source = rowsFrom(sums, row);
    Value scale = loadSplat(b.advance(factor.pointer, f32, row));
    Value target = rowPointer(out, batch, head, b.add(firstQuery, row));
    for (int64_t vec = 0; vec < blocking.headVectors; ++vec)
      storeHead(
          b.create<arith::MulFOp>(loadVector(vectorAt(source, 0, vec)), scale),
          target, vec);
  });
}
} // namespace

int64_t attentionScratchBytes(const AttentionSpec &spec,
                              const CpuTarget &target) {
  AttentionBlocking blocking(spec, target, forwardKeyBlock);
  return ForwardScratch(blocking).plan.bytes();
}

LogicalResult emitAttention(OpBuilder &builder, Location loc,
                            const AttentionSpec &spec, const CpuTarget &target,
                            ValueRange qkv, Value output, Value lse,
                            const AttentionRandom &random,
                            const AttentionKeys &keys, Value scratch,
                            Value thread, Value threads) {
  if (!isValidAttention(spec, qkv.size(), random, keys))
    return failure();
  LoopBuilder b(builder, loc);
  AttentionBlocking blocking(spec, target, forwardKeyBlock);
  ForwardEmitter emitter(b, spec, blocking, b.pointerTo(scratch));
  emitter.emit(qkv, output, lse, random, keys, b.toI64(thread),
               b.toI64(threads));
  return success();
}

} // namespace heddle::cpu
