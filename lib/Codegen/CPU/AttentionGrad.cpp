//===- AttentionGrad.cpp - The gradient of attention ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of nn.attention. The code loops over the heads of keys and
// values, over the blocks of queries that read such a head, and over the blocks
// of keys. For each pair of blocks it computes, with transposed scores:
//
//   P  = 2^(K (scale log2(e) Q)^T - lse log2(e))
//   dP = V dO^T
//   dS = P (M dP - delta),  delta = row sums of O dO
//   dV += (M P) dO,  dK += dS Q,  dQ += dS^T K
//
// M is the mask of dropout times 1 / (1 - p), or 1 without dropout. dK and dQ
// are multiplied by the scale at the end. With a soft cap dS is also multiplied
// by the cap's derivative.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include <cmath>

using namespace mlir;

namespace heddle::cpu {

namespace {
constexpr int64_t gradKeyBlock = 96;

/// The layout of a thread's scratch memory in the gradient, with offsets in
/// words of 32 bits.
struct GradScratch {
  GradScratch(const AttentionSpec &spec, const AttentionBlocking &blocking)
      : layout(blocking, plan) {
    int64_t natural = blocking.naturalRow(), row = blocking.headRow();
    int64_t queryCount = blocking.queries();
    // There is a natural panel at `naturalOffset`, with the elements row by
    // row. Returns the offset of a paired panel with the same elements: each of
    // its 32-bit words has elements of two adjacent rows. With f32 a word is
    // one element, so both panels are the same. With bf16 the paired panel
    // needs its own scratch.
    auto take = [&](int64_t naturalOffset, int64_t words) {
      return blocking.pairs == 1 ? naturalOffset : plan.take(words / 2);
    };
    keys = plan.take(blocking.keys * natural);
    pairedKeys = take(keys, blocking.keys * row);
    values = plan.take(blocking.keys * natural);
    gradKeys = plan.take(blocking.keys * row);
    gradValues = plan.take(blocking.keys * row);
    queries = plan.take(queryCount * natural);
    pairedQueries = take(queries, queryCount * row);
    queriesTransposed = plan.take(queryCount * natural);
    gradOutput = plan.take(queryCount * natural);
    pairedGradOutput = take(gradOutput, queryCount * row);
    gradOutputTransposed = plan.take(queryCount * natural);
    gradQueries = plan.take(queryCount * row);
    probabilities = plan.take(blocking.scorePanel());
    weights = take(probabilities, blocking.scorePanel());
    gradScores = plan.take(blocking.scorePanel() / blocking.pairs);
    pairedGradScores = take(gradScores, blocking.scorePanel());
    dropout = spec.p > 0 ? plan.take(blocking.scorePanel()) : 0;
    slopes = spec.softcap > 0 ? plan.take(blocking.scorePanel()) : 0;
    lse = plan.take(queryCount);
    delta = plan.take(queryCount);
  }
  ScratchPlan plan;
  LayoutScratch layout;
  int64_t keys, pairedKeys, values, gradKeys, gradValues;
  int64_t queries, pairedQueries, queriesTransposed;
  int64_t gradOutput, pairedGradOutput, gradOutputTransposed, gradQueries;
  int64_t probabilities, weights, gradScores, pairedGradScores, dropout, slopes;
  int64_t lse, delta;
};

/// The operands and results of nn.attention_grad.
struct GradOperands {
  Value grad, output, lse;
  ValueRange qkv, gradQkv;
};

class GradEmitter : public AttentionEmitter {
public:
  GradEmitter(LoopBuilder &b, const AttentionSpec &spec,
              const AttentionBlocking &blocking, Value scratch);

  void emit(const GradOperands &operands, const AttentionRandom &random,
            const AttentionKeys &present, Value thread, Value threads);

private:
  void keyHead(Value batch, Value kvHead);
  /// Packs the keys and values from `first` on: `rows` of them, and then zeros
  /// up to `total`.
  void packKeysAndValues(Value batch, Value kvHead, Value first, Value rows,
                         Value total);
  /// Sets the gradients of a block of keys and values to zero.
  void clearBlock(Value key);
  void queryBlock(Value batch, Value kvHead, Value head, Value firstQuery);
  void loadQueries(Value batch, Value head, Value firstQuery, Value rows);
  void loadStatistics(Value batch, Value head, Value firstQuery, Value rows);
  void dropoutFactors(Value firstQuery, const KeyRange &range);
  void probabilityTile(Value firstQuery, Value key, const Tile &tile,
                       bool masked);
  void gradScoreTiles(const KeyRange &range);
  void addGradients(const KeyRange &range);
  void gradScoreColumn(const Tile &tile, int64_t vec, const Values &products);
  void storeRows(const Panel &from, double factor, const Heads &to, Value batch,
                 Value head, Value firstRow, Value rows);

  std::array<Heads, 3> qkv, gradQkv;
  Heads grad, out;
  Value lsePointer, probability;
  Panel keys, pairedKeys, values, gradKeys, gradValues;
  Panel queries, pairedQueries, queriesTransposed;
  Panel gradOutput, pairedGradOutput, gradOutputTransposed, gradQueries;
  Panel probabilities, weights, gradScores, pairedGradScores, dropout, slopes;
  Panel lse, delta;
  LayoutScratch layoutScratch;
};

GradEmitter::GradEmitter(LoopBuilder &b, const AttentionSpec &spec,
                         const AttentionBlocking &blocking, Value scratch)
    : AttentionEmitter(b, spec, blocking, scratch),
      layoutScratch(GradScratch(spec, blocking).layout) {
  GradScratch at(spec, blocking);
  int64_t naturalRow = blocking.naturalRow(), headRow = blocking.headRow();
  int64_t queryRow = blocking.queries();
  keys = panel(at.keys, naturalRow);
  pairedKeys = panel(at.pairedKeys, headRow);
  values = panel(at.values, naturalRow);
  gradKeys = panel(at.gradKeys, headRow);
  gradValues = panel(at.gradValues, headRow);
  queries = panel(at.queries, naturalRow);
  pairedQueries = panel(at.pairedQueries, headRow);
  queriesTransposed = panel(at.queriesTransposed, queryRow);
  gradOutput = panel(at.gradOutput, naturalRow);
  pairedGradOutput = panel(at.pairedGradOutput, headRow);
  gradOutputTransposed = panel(at.gradOutputTransposed, queryRow);
  gradQueries = panel(at.gradQueries, headRow);
  probabilities = panel(at.probabilities, queryRow);
  weights = panel(at.weights, queryRow / blocking.pairs);
  gradScores = panel(at.gradScores, queryRow / blocking.pairs);
  pairedGradScores = panel(at.pairedGradScores, queryRow);
  dropout = panel(at.dropout, queryRow);
  slopes = panel(at.slopes, queryRow);
  lse = panel(at.lse, queryRow);
  delta = panel(at.delta, queryRow);
}

void GradEmitter::emit(const GradOperands &operands,
                       const AttentionRandom &random,
                       const AttentionKeys &present, Value thread,
                       Value threads) {
  qkv = splitHeads(operands.qkv);
  gradQkv = splitHeads(operands.gradQkv);
  grad = queryHeads(operands.grad);
  out = queryHeads(operands.output);
  lsePointer = b.pointerTo(operands.lse);
  prepareKeys(present, layoutScratch);
  if (spec.p > 0)
    prepareRandom(random);

  auto [begin, end] = share(thread, threads, spec.kvHeads);
  b.forLoop(begin, end, 1, [&](Value item) {
    Value batch = b.div(item, spec.kvHeads);
    keyHead(batch, b.sub(item, b.mul(batch, spec.kvHeads)));
  });
}

void GradEmitter::keyHead(Value batch, Value kvHead) {
  beginRow(batch);
  Value zero = b.constant(0), rows = b.constant(spec.seq);
  // With a layout, a block of keys is packed when a query sees it, so that the
  // block is still in a cache.
  if (spec.block) {
    forgetKeys();
  } else {
    packKeysAndValues(batch, kvHead, zero, visible->count(), paddedKeys());
    fill(gradKeys, blocking.keys, 0.0);
    fill(gradValues, blocking.keys, 0.0);
  }

  int64_t group = spec.heads / spec.kvHeads;
  Value firstHead = b.mul(kvHead, group);
  b.forLoop(firstHead, b.add(firstHead, group), 1, [&](Value head) {
    if (spec.p > 0)
      probability = firstProbability(batch, head);
    b.forLoop(zero, rows, blocking.queries(), [&](Value firstQuery) {
      queryBlock(batch, kvHead, head, firstQuery);
    });
  });
  if (spec.block)
    forUnseenBlocks([&](Value key) { clearBlock(key); });
  storeRows(gradKeys, spec.scale, gradQkv[1], batch, kvHead, zero, rows);
  storeRows(gradValues, 1.0, gradQkv[2], batch, kvHead, zero, rows);
}

void GradEmitter::packKeysAndValues(Value batch, Value kvHead, Value first,
                                    Value rows, Value total) {
  Panel to = rowsFrom(keys, first);
  packRows(rowPointer(qkv[1], batch, kvHead, first), qkv[1].row, rows, total,
           to);
  packRows(rowPointer(qkv[2], batch, kvHead, first), qkv[2].row, rows, total,
           rowsFrom(values, first));
  pairRows(to, total, rowsFrom(pairedKeys, pairsOf(first)));
}

void GradEmitter::clearBlock(Value key) {
  fill(rowsFrom(gradKeys, key), spec.block, 0.0);
  fill(rowsFrom(gradValues, key), spec.block, 0.0);
}

void GradEmitter::queryBlock(Value batch, Value kvHead, Value head,
                             Value firstQuery) {
  Value rows =
      minimum(b.sub(b.constant(spec.seq), firstQuery), blocking.queries());
  loadQueries(batch, head, firstQuery, rows);
  loadStatistics(batch, head, firstQuery, rows);
  if (spec.block) {
    Value next = b.add(firstQuery, blocking.queries());
    for (const Heads &heads : {qkv[0], grad, out})
      prefetchRows(heads, batch, head, next, blocking.queries());
    prefetchRows(gradQkv[0], batch, head, firstQuery, blocking.queries());
  }
  fill(gradQueries, blocking.queries(), 0.0);

  auto pack = [&](Value key) {
    packKeysAndValues(batch, kvHead, key, rowsOfBlock(key),
                      b.constant(spec.block));
    clearBlock(key);
    Value next = b.add(key, spec.block);
    prefetchRows(qkv[1], batch, kvHead, next, spec.block);
    prefetchRows(qkv[2], batch, kvHead, next, spec.block);
  };
  forKeyRanges(head, firstQuery, pack, [&](const KeyRange &range) {
    if (spec.p > 0)
      dropoutFactors(firstQuery, range);
    forScoreTiles(range, [&](const Tile &tile, Value key, bool masked) {
      probabilityTile(firstQuery, key, tile, masked);
    });
    gradScoreTiles(range);
    addGradients(range);
  });
  storeRows(gradQueries, spec.scale, gradQkv[0], batch, head, firstQuery, rows);
}

/// dV += (M P) dO, dK += dS Q, dQ += dS^T K.
void GradEmitter::addGradients(const KeyRange &range) {
  Value queryWords = pairsOf(b.constant(blocking.queries()));
  auto addOfKeys = [&](const Panel &left, const Panel &right, const Panel &to) {
    forRuns(range, [&](const KeyRun &run) {
      accumulate({run.begin, run.end}, rowsFrom(to, run.offset),
                 [&](const Tile &tile, Values sums) {
                   return multiply(tile, rowsFrom(left, tile.row),
                                   columnsFrom(right, tile.column), queryWords,
                                   4, sums);
                 });
    });
  };
  addOfKeys(weights, pairedGradOutput, gradValues);
  addOfKeys(gradScores, pairedQueries, gradKeys);
  RowRange queryRows;
  queryRows.fixed = blocking.queries();
  accumulate(queryRows, gradQueries, [&](const Tile &tile, Values init) {
    return forRuns(range, init, [&](const KeyRun &run, ValueRange sums) {
      Panel left = rowsFrom(pairedGradScores, pairsOf(run.begin));
      Value key = pairsOf(b.add(run.offset, run.begin));
      return multiply(tile, rowsFrom(transposed(left), tile.row),
                      columnsFrom(rowsFrom(pairedKeys, key), tile.column),
                      pairsOf(b.sub(run.end, run.begin)), blocking.keyUnroll(),
                      sums);
    });
  });
}

void GradEmitter::loadQueries(Value batch, Value head, Value firstQuery,
                              Value rows) {
  Value count = b.constant(blocking.queries());
  packRows(rowPointer(qkv[0], batch, head, firstQuery), qkv[0].row, rows, count,
           queries);
  pairRows(queries, count, pairedQueries);
  transposeQueries(queries, spec.scoreFactor(), queriesTransposed);
  packRows(rowPointer(grad, batch, head, firstQuery), grad.row, rows, count,
           gradOutput);
  pairRows(gradOutput, count, pairedGradOutput);
  transposeQueries(gradOutput, 1.0, gradOutputTransposed);
}

/// Loads lse, in units of log 2, and computes delta, the row sums of O dO. For
/// queries beyond the end of the sequence lse and delta are zero. Since Q and
/// dO of such queries are also zero, they add nothing to the gradients.
void GradEmitter::loadStatistics(Value batch, Value head, Value firstQuery,
                                 Value rows) {
  Value zero = b.constant(0);
  Value index = b.add(b.mul(batch, spec.heads), head);
  Value source =
      b.advance(lsePointer, f32, b.add(b.mul(index, spec.seq), firstQuery));
  b.forLoop(zero, b.constant(blocking.queries()), blocking.lanes,
            [&](Value column) {
              Value mask = b.mask(b.sub(rows, column), blocking.lanes);
              Value value =
                  b.load(vectorType, b.advance(source, f32, column), 4, mask);
              storeVector(b.create<arith::MulFOp>(value, splat(M_LOG2E)),
                          b.advance(lse.pointer, f32, column));
            });
  fill(delta, 1, 0.0);
  b.forLoop(zero, rows, 1, [&](Value row) {
    Value query = b.add(firstQuery, row);
    Value forward = rowPointer(out, batch, head, query);
    Value gradRow = rowPointer(grad, batch, head, query);
    Value sum = splat(0.0);
    for (int64_t vec = 0; vec < blocking.headVectors; ++vec)
      sum = b.create<vector::FMAOp>(loadHead(forward, vec),
                                    loadHead(gradRow, vec), sum);
    Value total = b.create<vector::ReductionOp>(vector::CombiningKind::ADD, sum,
                                                arith::FastMathFlags::reassoc);
    b.store(total, b.advance(delta.pointer, f32, row), 4);
  });
}

/// Computes M: 1 / (1 - p) where dropout keeps a probability, otherwise zero.
void GradEmitter::dropoutFactors(Value firstQuery, const KeyRange &range) {
  Value zero = b.constant(0), end = b.constant(blocking.queries());
  auto ofRow = [&](Value row, Value key) {
    Panel rows = rowsFrom(dropout, row);
    b.forLoop(zero, end, blocking.lanes, [&](Value column) {
      Panel target = columnsFrom(rows, column);
      Values kept = keep(probability, b.add(firstQuery, column), key);
      for (auto [r, isKept] : llvm::enumerate(kept))
        storeVector(b.select(isKept, splat(1.0 / (1.0 - spec.p)), splat(0.0)),
                    vectorAt(target, r, 0));
    });
  };
  forRuns(range, [&](const KeyRun &run) {
    b.forLoop(run.begin, run.end, 4,
              [&](Value row) { ofRow(row, b.add(run.offset, row)); });
  });
}

void GradEmitter::probabilityTile(Value firstQuery, Value key, const Tile &tile,
                                  bool masked) {
  Values init(tile.rows * tile.vectors, splat(0.0));
  Values products = multiply(tile, rowsFrom(keys, key),
                             columnsFrom(queriesTransposed, tile.column),
                             headDepth(), 4, init);
  Panel target = columnsFrom(rowsFrom(probabilities, tile.row), tile.column);
  Panel slopeTarget = columnsFrom(rowsFrom(slopes, tile.row), tile.column);
  Panel norms = columnsFrom(lse, tile.column);
  for (int64_t vec = 0; vec < tile.vectors; ++vec) {
    Value norm = loadVector(vectorAt(norms, 0, vec));
    Value query = b.add(b.add(firstQuery, tile.column), vec * blocking.lanes);
    for (int64_t r = 0; r < tile.rows; ++r) {
      Value score = scoreOf(products[r * tile.vectors + vec]);
      if (spec.softcap > 0)
        storeVector(slopeOf(score), vectorAt(slopeTarget, r, vec));
      Value value = exp2(b.create<arith::SubFOp>(score, norm));
      if (masked)
        value = b.select(seen(query, b.add(key, r)), value, splat(0.0));
      storeVector(value, vectorAt(target, r, vec));
    }
  }
}

/// Computes the gradients dS of the scores, and the probabilities M P after
/// dropout, for all tiles of a block of keys.
void GradEmitter::gradScoreTiles(const KeyRange &range) {
  forRuns(range, [&](const KeyRun &run) {
    forTiles({run.begin, run.end}, blocking.queryGroups, [&](const Tile &tile) {
      Values init(tile.rows * tile.vectors, splat(0.0));
      Value key = b.add(run.offset, tile.row);
      Values products = multiply(tile, rowsFrom(values, key),
                                 columnsFrom(gradOutputTransposed, tile.column),
                                 headDepth(), 4, init);
      for (int64_t vec = 0; vec < tile.vectors; ++vec)
        gradScoreColumn(tile, vec, products);
    });
  });
}

/// Computes the gradients of the scores, and the probabilities after dropout,
/// for vector `vec` of a tile's columns. `products` is dP = V dO^T.
void GradEmitter::gradScoreColumn(const Tile &tile, int64_t vec,
                                  const Values &products) {
  auto part = [&](const Panel &panel, Value column) {
    return columnsFrom(rowsFrom(panel, tile.row), column);
  };
  Panel from = part(probabilities, tile.column);
  Panel factors = part(dropout, tile.column);
  Panel ofCap = part(slopes, tile.column);
  Value columnWord = pairsOf(tile.column);
  Panel weighted = part(weights, columnWord);
  Panel target = part(gradScores, columnWord);
  Panel paired =
      columnsFrom(rowsFrom(pairedGradScores, pairsOf(tile.row)), tile.column);
  Value shift = loadVector(vectorAt(columnsFrom(delta, tile.column), 0, vec));
  Value even;
  for (int64_t r = 0; r < tile.rows; ++r) {
    Value value = products[r * tile.vectors + vec];
    Value weight = loadVector(vectorAt(from, r, vec)), kept = weight;
    if (spec.p > 0) {
      Value factor = loadVector(vectorAt(factors, r, vec));
      value = b.create<arith::MulFOp>(value, factor);
      kept = b.create<arith::MulFOp>(weight, factor);
    }
    if (spec.p > 0 || blocking.pairs == 2)
      storeNatural(kept, weighted, r, vec);
    value = b.create<arith::SubFOp>(value, shift);
    value = b.create<arith::MulFOp>(weight, value);
    if (spec.softcap > 0)
      value =
          b.create<arith::MulFOp>(value, loadVector(vectorAt(ofCap, r, vec)));
    storeNatural(value, target, r, vec);
    if (blocking.pairs == 2 && r % 2 == 1)
      storePaired(even, value, vectorAt(paired, r / 2, vec));
    even = value;
  }
}

void GradEmitter::storeRows(const Panel &from, double factor, const Heads &to,
                            Value batch, Value head, Value firstRow,
                            Value rows) {
  b.forLoop(b.constant(0), rows, 1, [&](Value row) {
    Panel source = rowsFrom(from, row);
    Value target = rowPointer(to, batch, head, b.add(firstRow, row));
    for (int64_t vec = 0; vec < blocking.headVectors; ++vec) {
      Value value = loadVector(vectorAt(source, 0, vec));
      if (factor != 1.0)
        value = b.create<arith::MulFOp>(value, splat(factor));
      storeHead(value, target, vec);
    }
  });
}
} // namespace

int64_t attentionGradScratchBytes(const AttentionSpec &spec,
                                  const CpuTarget &target) {
  AttentionBlocking blocking(spec, target, gradKeyBlock);
  return GradScratch(spec, blocking).plan.bytes();
}

LogicalResult
emitAttentionGrad(OpBuilder &builder, Location loc, const AttentionSpec &spec,
                  const CpuTarget &target, Value grad, ValueRange qkv,
                  Value output, Value lse, ValueRange gradQkv,
                  const AttentionRandom &random, const AttentionKeys &keys,
                  Value scratch, Value thread, Value threads) {
  if (!isValidAttention(spec, qkv.size(), random, keys) ||
      gradQkv.size() != qkv.size())
    return failure();
  LoopBuilder b(builder, loc);
  AttentionBlocking blocking(spec, target, gradKeyBlock);
  GradEmitter emitter(b, spec, blocking, b.pointerTo(scratch));
  emitter.emit({grad, output, lse, qkv, gradQkv}, random, keys, b.toI64(thread),
               b.toI64(threads));
  return success();
}

} // namespace heddle::cpu
