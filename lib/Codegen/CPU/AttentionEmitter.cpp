//===- AttentionEmitter.cpp - Common code of attention's kernels ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "PairUnit.h"
#include "dialects/Dist/ComputeType.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;

namespace heddle::cpu {

/// Splits rows of `vectors` vectors into tiles of at most `widest` vectors,
/// which are as equal in width as possible. Adjacent tiles of the same width
/// form a group.
static SmallVector<ColumnGroup> columnGroups(int64_t vectors, int64_t widest) {
  int64_t count = llvm::divideCeil(vectors, widest);
  int64_t narrow = vectors / count, wideCount = vectors % count;
  SmallVector<ColumnGroup> groups;
  if (wideCount)
    groups.push_back({0, wideCount, narrow + 1});
  groups.push_back({wideCount * (narrow + 1), count - wideCount, narrow});
  return groups;
}

AttentionBlocking::AttentionBlocking(const AttentionSpec &spec,
                                     const CpuTarget &target,
                                     int64_t maxKeyBlock)
    : lanes(target.lanes()), hasLayout(spec.block > 0) {
  // On CPUs with AMX, vdpbf16ps multiplies twice as many values as an f32
  // multiply-add at half its rate, so f32 is as fast and more precise.
  Type type = spec.elementType;
  bool hasFastDot = multipliesPairs(target, type, type) &&
                    !multipliesTiles(target, type, type);
  pairs = hasFastDot ? 2 : 1;
  widest = target.hasAvx512 ? 4 : 2;
  headVectors = llvm::divideCeil(spec.headDim, lanes);
  // Smaller blocks of queries compute fewer masked scores, but read keys more
  // often.
  int64_t maxQueries = spec.causal && spec.seq <= 1024 ? 32 : 64;
  if (hasLayout)
    maxQueries = std::min<int64_t>(spec.block, 64);
  queryVectors = maxQueries / lanes;
  if (!hasLayout)
    queryVectors =
        std::min<int64_t>(llvm::divideCeil(spec.seq, lanes), queryVectors);
  queryBlocks = llvm::divideCeil(spec.seq, queries());
  headGroups = columnGroups(headVectors, widest);
  queryGroups = columnGroups(queryVectors, widest);
  // Ranges of keys are padded to a multiple of `keyUnit`. Products compute
  // whole tiles, so `keyUnit` is a multiple of the number of rows of a tile.
  // With dropout `keyUnit` is also a multiple of four, because four adjacent
  // keys share one block of random words. With a layout `keyUnit` divides the
  // blocks of keys.
  int64_t narrowest =
      std::min(headGroups.back().vectors, queryGroups.back().vectors);
  if (hasLayout) {
    keyUnit = lanes;
    keys = llvm::alignTo(spec.seq, spec.block);
    keyBlock = std::max<int64_t>(maxKeyBlock / spec.block, 1) * spec.block;
    listed = keys / spec.block + 1;
    counted = (spec.layouts == 1 ? 1 : spec.heads) * queryBlocks;
    return;
  }
  keyUnit = spec.p > 0 ? 12 : tileRows(narrowest);
  keys = llvm::alignTo(spec.seq, keyUnit);
  keyBlock = std::min<int64_t>(maxKeyBlock, llvm::alignTo(spec.seq, 12));
}

int64_t AttentionBlocking::tileRows(int64_t vectors) const {
  // With a layout the number of rows divides the blocks of keys. As many sums
  // as vectors have lanes hide the latency of multiply-add.
  if (hasLayout)
    return llvm::bit_floor(static_cast<uint64_t>(lanes / vectors));
  // More rows would not fit in the registers; fewer rows would have too few
  // independent sums to hide the latency of multiply-add.
  return 2 * vectors <= std::max<int64_t>(widest, 2) ? 12 : 6;
}

bool isValidAttention(const AttentionSpec &spec, size_t operands,
                      const AttentionRandom &random,
                      const AttentionKeys &keys) {
  bool sizes = spec.batch > 0 && spec.seq > 0 && spec.kvHeads > 0 &&
               spec.heads > 0 && spec.heads % spec.kvHeads == 0 &&
               spec.headDim > 0;
  bool dropout = spec.p == 0 || (spec.p > 0 && spec.p < 1 && random.rng &&
                                 random.layer && random.microBatch);
  bool shards =
      spec.sequenceShards == 1 || (keys.sequenceShard && keys.ringStep);
  // Shards of the sequence are whole blocks; the last block of a whole sequence
  // need not be.
  bool layout =
      spec.block == 0 ||
      (keys.layout && spec.block * spec.layoutBlocks >= spec.wholeSeq() &&
       (spec.sequenceShards == 1 || spec.seq % spec.block == 0));
  Type type = spec.elementType;
  return sizes && dropout && shards && layout && type &&
         dist::findComputeType(type) && operands == (spec.packed ? 1 : 3);
}

AttentionEmitter::AttentionEmitter(LoopBuilder &b, const AttentionSpec &spec,
                                   const AttentionBlocking &blocking,
                                   Value scratch)
    : b(b), spec(spec), blocking(blocking), scratch(scratch),
      f32(b.builder.getF32Type()),
      vectorType(VectorType::get(blocking.lanes, f32)),
      wideType(VectorType::get(blocking.lanes / 2, b.builder.getI64Type())) {}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::array<AttentionEmitter::Heads, 3>
AttentionEmitter::splitHeads(ValueRange tensors) {
  std::array<Heads, 3> heads;
  for (auto [i, columns] : llvm::enumerate(spec.headColumns())) {
    Value pointer = b.pointerTo(tensors[spec.packed ? 0 : i]);
    if (columns.offset)
      pointer = b.advance(pointer, spec.elementType, columns.offset);
    heads[i] = {pointer, columns.row};
  }
  return heads;
}

AttentionEmitter::Heads AttentionEmitter::queryHeads(Value tensor) {
  return {b.pointerTo(tensor), spec.heads * spec.headDim};
}

Value AttentionEmitter::rowPointer(const Heads &heads, Value batch, Value head,
                                   Value row) {
  Value index = b.mul(b.add(b.mul(batch, spec.seq), row), heads.row);
  index = b.add(index, b.mul(head, spec.headDim));
  return b.advance(heads.pointer, spec.elementType, index);
}

Value AttentionEmitter::loadHead(Value row, int64_t vector) {
  int64_t rest = spec.headDim - vector * blocking.lanes;
  Value mask = rest < blocking.lanes ? b.mask(b.constant(rest), blocking.lanes)
                                     : Value();
  Value pointer = b.advance(row, spec.elementType, vector * blocking.lanes);
  unsigned alignment = dist::byteSize(spec.elementType);
  Value loaded =
      b.load(vectorType.clone(spec.elementType), pointer, alignment, mask);
  return spec.elementType.isF32() ? loaded
                                  : b.create<arith::ExtFOp>(vectorType, loaded);
}

void AttentionEmitter::storeHead(Value value, Value row, int64_t vector) {
  int64_t rest = spec.headDim - vector * blocking.lanes;
  Value mask = rest < blocking.lanes ? b.mask(b.constant(rest), blocking.lanes)
                                     : Value();
  if (!spec.elementType.isF32())
    value =
        b.create<arith::TruncFOp>(vectorType.clone(spec.elementType), value);
  unsigned alignment = dist::byteSize(spec.elementType);
  b.store(value, b.advance(row, spec.elementType, vector * blocking.lanes),
          alignment, mask);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void AttentionEmitter::forTiles(const RowRange &range,
                                ArrayRef<ColumnGroup> groups,
                                function_ref<void(const Tile &)> body) {
  auto forRows = [&](Value column, int64_t vectors) {
    int64_t rows = blocking.tileRows(vectors);
    if (range.fixed < 0) {
      assert(blocking.keyUnit % rows == 0 && "the last tile is not whole");
      b.forLoop(range.begin, range.end, rows, [&](Value row) {
        body({row, column, rows, vectors});
      });
      return;
    }
    int64_t whole = range.fixed / rows * rows;
    if (whole)
      b.forLoop(b.constant(0), b.constant(whole), rows, [&](Value row) {
        body({row, column, rows, vectors});
      });
    if (whole < range.fixed)
      body({b.constant(whole), column, range.fixed - whole, vectors});
  };
  for (const ColumnGroup &group : groups) {
    int64_t step = group.vectors * blocking.lanes;
    int64_t first = group.first * blocking.lanes;
    if (group.count == 1) {
      forRows(b.constant(first), group.vectors);
      continue;
    }
    b.forLoop(b.constant(first), b.constant(first + group.count * step), step,
              [&](Value column) { forRows(column, group.vectors); });
  }
}

LoopBuilder::Values AttentionEmitter::multiply(const Tile &tile,
                                               const Panel &left,
                                               const Panel &right, Value depth,
                                               int64_t unroll,
                                               ValueRange init) {
  return b.forLoop(
      b.constant(0), depth, unroll, init, [&](Value k, ValueRange carried) {
        Values acc(carried);
        Panel column = columnsFrom(left, k), row = rowsFrom(right, k);
        for (int64_t u = 0; u < unroll; ++u) {
          Values columns;
          for (int64_t v = 0; v < tile.vectors; ++v)
            columns.push_back(loadVector(vectorAt(row, u, v)));
          for (int64_t r = 0; r < tile.rows; ++r) {
            Value scalar = loadSplat(
                b.advance(column.pointer, f32, r * left.row + u * left.column));
            for (int64_t v = 0; v < tile.vectors; ++v) {
              Value &sum = acc[r * tile.vectors + v];
              sum = multiplyAdd(scalar, columns[v], sum);
            }
          }
        }
        return acc;
      });
}

Value AttentionEmitter::multiplyAdd(Value left, Value right, Value sum) {
  if (blocking.pairs == 1)
    return b.create<vector::FMAOp>(left, right, sum);
  return addPairProducts(b, spec.elementType, left, right, sum);
}

Value AttentionEmitter::headDepth() {
  int64_t words = llvm::divideCeil(spec.headDim, blocking.pairs);
  return b.constant(llvm::alignTo(words, 4));
}

Value AttentionEmitter::pairsOf(Value count) {
  return blocking.pairs == 1 ? count : b.div(count, blocking.pairs);
}

void AttentionEmitter::accumulate(
    const RowRange &range, const Panel &to,
    function_ref<Values(const Tile &, Values)> product) {
  forTiles(range, blocking.headGroups, [&](const Tile &tile) {
    Panel target = columnsFrom(rowsFrom(to, tile.row), tile.column);
    Values pointers, sums;
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t v = 0; v < tile.vectors; ++v) {
        pointers.push_back(vectorAt(target, r, v));
        sums.push_back(loadVector(pointers.back()));
      }
    sums = product(tile, sums);
    for (auto [sum, pointer] : llvm::zip_equal(sums, pointers))
      storeVector(sum, pointer);
  });
}

//===----------------------------------------------------------------------===//
// Keys that queries see
//===----------------------------------------------------------------------===//

Value AttentionEmitter::minimum(Value a, int64_t bound) {
  return b.min(a, b.constant(bound));
}

Value AttentionEmitter::maximum(Value a, Value bound) {
  return b.create<arith::MaxSIOp>(a, bound);
}

Value AttentionEmitter::lengthOf(Value batch) {
  if (!lengths)
    return {};
  Type i32 = b.builder.getI32Type();
  return b.load(i32, b.advance(lengths, i32, batch), 4);
}

Value AttentionEmitter::paddedKeys() {
  return integers().ceilTo(visible->count(),
                           spec.block ? spec.block : blocking.keyUnit);
}

Value AttentionEmitter::rowsOfBlock(Value key) {
  return minimum(b.sub(visible->count(), key), spec.block);
}

Value AttentionEmitter::seen(Value query, Value key) {
  auto type = vectorType.clone(b.builder.getI32Type());
  codegen::IntBuilder ints(b.builder, b.loc, type);
  SmallVector<int32_t> iota;
  for (int32_t lane = 0; lane < blocking.lanes; ++lane)
    iota.push_back(lane);
  Value lane = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(type, ArrayRef<int32_t>(iota)));
  return visible->with(ints).sees(ints.add(ints.from(query), lane),
                                  ints.from(key));
}

//===----------------------------------------------------------------------===//
// Mathematics
//===----------------------------------------------------------------------===//

Value AttentionEmitter::scoreOf(Value product) {
  if (blocking.pairs > 1)
    product = b.create<arith::MulFOp>(product, splat(spec.scoreFactor()));
  if (spec.softcap == 0)
    return product;
  return b.create<arith::MulFOp>(b.create<math::TanhOp>(product),
                                 splat(spec.capFactor()));
}

Value AttentionEmitter::slopeOf(Value score) {
  Value share = b.create<arith::MulFOp>(score, splat(1.0 / spec.capFactor()));
  Value negated = b.create<arith::NegFOp>(share);
  return b.create<vector::FMAOp>(negated, share, splat(1.0));
}

Value AttentionEmitter::greater(Value x, Value y) {
  // LLVM compiles this comparison and select to one maxps instruction.
  Value condition = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y);
  return b.select(condition, x, y);
}

Value AttentionEmitter::exp2(Value t) {
  return codegen::exp2(b.builder, b.loc, t);
}

} // namespace heddle::cpu
