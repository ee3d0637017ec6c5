//===- MapAttentionGrad.cpp - The gradient of attention -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the gradient of attention to two launches, which both recompute the
// probabilities. A block of the first launch has some queries and loops over
// keys. A block of the second launch has some keys and loops over queries. Each
// sum is thus computed by one block, in a fixed order.
//
//   P  = 2^((Q K^T scale - lse) log2(e))
//   dP = dO V^T
//   dS = P (M dP - delta),  delta = row sums of O dO
//   first:  dQ = dS K scale
//   second: dV = (M P)^T dO,  dK = dS^T Q scale
//
// M is the mask of dropout, with its scale; 1 without dropout. The first launch
// stores delta for the second. With a layout, another launch before them sorts
// the blocks of queries and of keys. With a soft cap, dS is also multiplied by
// the derivative of the cap.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;

namespace heddle::gpu {

namespace {
/// What the two launches of attention's gradient have in common.
class GradMapper : public AttentionMapper {
public:
  GradMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
             nn::AttentionGradOp op, const FrameOptions &options)
      : AttentionMapper(kernel, module, op, options), gradient(op),
        qkv(splitHeads(buffersOf(op.getQkv()))),
        gradOutput(queryHeads(f.argumentBuffer(op.getGrad()))),
        lse(f.argumentBuffer(op.getLse())) {
    SmallVector<Value> results;
    for (Value result : op.getOutputs())
      results.push_back(bufferOf(result));
    gradQkv = splitHeads(results);
    auto type = cast<RankedTensorType>(op.getLse().getType());
    delta = f.scratch(0, {type.getNumElements()}, f.builder.getF32Type());
  }

protected:
  /// Returns a number for the query to which element (i, j) of a tile belongs.
  using OfElement = function_ref<Value(int64_t i, int64_t j)>;
  /// Computes in `weights` the probabilities after dropout, and in `scores` the
  /// gradient of the scores. Before the call, `weights` holds the scores, and
  /// `scores` the products of output gradients and values. `lse` returns the
  /// log-sum-exp of a query's scores, `delta` the row sum of O dO of a query.
  void gradScores(WarpTile &weights, WarpTile &scores, const ColumnTile &tile,
                  Value isFull, ArrayRef<Value> bounds, bool keysAreColumns,
                  OfElement lse, OfElement delta);
  /// Masks the elements whose key is too old for their query. The rows of the
  /// tile are keys.
  void hideTooNewQueries(WarpTile &weights, const ColumnTile &queries);
  /// With a soft cap: returns the derivative of the capped score with respect
  /// to the score before capping.
  Value slopeOf(Value score) {
    Value share = mulF(score, constant(1.0 / spec.capFactor()));
    return subF(constant(1.0), mulF(share, share));
  }
  /// The number of tiles of products that a warp has in registers at the same
  /// time. A soft cap needs one more, for its derivative.
  int64_t products() const { return spec.softcap > 0 ? 3 : 2; }
  /// Multiplies an exponent by log2(e), since e^x is computed as 2^(x log2(e)).
  Value inLog2(Value exponent) { return mulF(exponent, constant(M_LOG2E)); }

  nn::AttentionGradOp gradient;
  std::array<Heads, 3> qkv, gradQkv;
  Heads gradOutput;
  Value lse, delta;
};

/// The first launch: computes the gradient of the queries, and for the second
/// launch delta, the row sums of output * output gradient.
class QueriesMapper : public GradMapper {
public:
  using GradMapper::GradMapper;
  MappedLaunch emit();

private:
  void loadStatistics(Value grads);
  Value deltaOf(int64_t rowOfThread, Value row, Value own, Value grads);

  Value keys, values;
  /// For each query of the thread: end of the keys it sees, lse and delta.
  Values ends, lses, deltas;
};

/// The second launch: computes the gradients of the keys and values.
class KeysMapper : public GradMapper {
public:
  using GradMapper::GradMapper;
  MappedLaunch emit();

private:
  Values queriesOf(Value head, Values sums);
  HeadRows ownHeadRows(int64_t tensor);
  HeadRows otherRows(const Heads &heads, Value head, const RowRanges &rows);
  void addQueries(Value head, const ColumnTile &tile, WarpTile &gradKeys,
                  WarpTile &gradValues);

  Value queries, grads, lses, deltas;
  LeftRows keys, values;
  Values firsts; ///< The first query that sees each of the thread's keys.
};
} // namespace

void GradMapper::gradScores(WarpTile &weights, WarpTile &scores,
                            const ColumnTile &tile, Value isFull,
                            ArrayRef<Value> bounds, bool keysAreColumns,
                            OfElement lse, OfElement delta) {
  Values slopes; // One for each element, with a soft cap.
  for (int64_t i = 0; i < weights.rows; ++i)
    for (int64_t j = 0; j < weights.columns; ++j) {
      Value &weight = weights.at(i, j);
      if (spec.softcap > 0) {
        weight = capped(weight);
        slopes.push_back(slopeOf(weight));
      } else if (spec.elementType.isF32()) {
        // Subtracts lse before the multiplication by log2(e), for accuracy.
        // Where the probability is large, the difference is small, and so is
        // the rounding error of its product. The product of lse itself and
        // log2(e) would have a larger error.
        Value negated = f.builder.create<arith::NegFOp>(f.loc, lse(i, j));
        weight = inLog2(fmaF(weight, spec.scale, negated));
        continue;
      } else {
        weight = mulF(weight, constant(spec.scoreFactor()));
      }
      weight = subF(weight, inLog2(lse(i, j)));
    }
  hide(weights, tile, isFull, bounds, /*below=*/keysAreColumns);
  if (keysAreColumns)
    hideTooOldKeys(weights, tile);
  else
    hideTooNewQueries(weights, tile);
  Values kept;
  if (spec.p > 0)
    kept = keep(weights, firstOfWarp, tile, keysAreColumns);
  for (int64_t i = 0; i < weights.rows; ++i)
    for (int64_t j = 0; j < weights.columns; ++j) {
      Value &weight = weights.at(i, j), &score = scores.at(i, j);
      Value probability = exp2(weight);
      weight = probability;
      if (spec.p > 0) {
        Value factor =
            i32.select(kept[i * weights.columns + j],
                       constant(1.0 / (1.0 - spec.p)), constant(0.0));
        score = mulF(score, factor);
        weight = mulF(weight, factor);
      }
      score = mulF(probability, subF(score, delta(i, j)));
      if (spec.softcap > 0)
        score = mulF(score, slopes[i * weights.columns + j]);
    }
}

void GradMapper::hideTooNewQueries(WarpTile &weights,
                                   const ColumnTile &queries) {
  Values ends;
  for (int64_t i = 0; i < weights.rows; ++i) {
    Value end = visible.endSeeing(i32.add(firstOfWarp, tiles->row(i)));
    if (!end)
      return;
    ends.push_back(end);
  }
  // Each key has a last query that sees it. This query is earlier for an
  // earlier key. If the tile's last query sees even the first key of this
  // thread block, no element is masked.
  Value isFull = i32.less(lastOf(queries), visible.endSeeing(firstMasked()));
  hide(weights, queries, isFull, ends, /*below=*/true);
}

MappedLaunch QueriesMapper::emit() {
  chooseBlocks({/*rowTensors=*/2, /*columnTensors=*/2, /*numbers=*/0,
                /*sums=*/1, products()});
  Value kvHead = i32.div(headOfBlock, spec.heads / spec.kvHeads);
  Value queryTile, gradTile;
  if (isSliced()) {
    queryTile = allocateSlices();
  } else {
    queryTile = allocateRows(rowsOfBlock());
    gradTile = allocateRows(rowsOfBlock());
    keys = allocateRows(2 * columns);
    values = allocateRows(2 * columns);
  }
  if (spec.p > 0)
    prepareRandom(headOfBlock);

  Value zero = i32.constant(0), all = i32.constant(spec.seq);
  HeadRows queryRows = {qkv[0], headOfBlock, ownRows(), all};
  HeadRows gradRows = {gradOutput, headOfBlock, ownRows(), all};
  if (!isSliced()) {
    copyRows({queryTile, zero}, rowsOfBlock(), queryRows, zero);
    copyRows({gradTile, zero}, rowsOfBlock(), gradRows, zero);
  }
  commitCopies();
  auto others = [&](const Heads &heads, const RowRanges &rows) {
    return HeadRows{heads, kvHead, rows, visible.count()};
  };
  auto copy = [&](const RowRanges &tile, Value stage) {
    if (isSliced())
      return;
    copyRows(columnsOf(keys, stage), columns, others(qkv[1], tile), zero);
    copyRows(columnsOf(values, stage), columns, others(qkv[2], tile), zero);
  };
  Value begin = beginOfKeys();
  beginColumns(begin, copy);

  // Where rows see few columns, it is worth it to wait for the tile of dO, and
  // not to read these rows twice.
  bool hasTile = spec.block && !isSliced();
  if (!hasTile)
    loadStatistics({});
  waitForCopies(1);
  if (hasTile)
    loadStatistics(gradTile);
  Value warpRow = i32.mul(warp, warpRows);
  LeftRows queries, grads;
  if (!isSliced()) {
    queries = tiles->left({queryTile, warpRow}, keepsLeft);
    grads = tiles->left({gradTile, warpRow}, keepsLeft);
  }
  WarpTile sums = tiles->zeroSums();
  sums.elements = forColumns(
      begin, endOfKeys(), sums.elements, copy,
      [&](const ColumnTile &tile, ValueRange carried) {
        sums.elements.assign(carried.begin(), carried.end());
        WarpTile weights, scores;
        if (isSliced()) {
          weights = multiplySlices(queryRows, others(qkv[1], tile.ranges));
          scores = multiplySlices(gradRows, others(qkv[2], tile.ranges));
        } else {
          weights = tiles->multiply(queries, columnsOf(keys, tile), tile.count);
          scores = tiles->multiply(grads, columnsOf(values, tile), tile.count);
        }
        Value isFull = i32.less(lastOf(tile), visible.endOf(firstMasked()));
        gradScores(
            weights, scores, tile, isFull, ends, /*keysAreColumns=*/true,
            [&](int64_t i, int64_t) { return lses[i]; },
            [&](int64_t i, int64_t) { return deltas[i]; });
        tiles->accumulate(sums, scores,
                          isSliced() ? ownSlice(others(qkv[1], tile.ranges), 0)
                                     : columnsOf(keys, tile));
        return sums.elements;
      });
  if (spec.block)
    placeWarp();
  Values factors(sums.rows, constant(spec.scale));
  storeRows(sums, factors, gradQkv[0], headOfBlock, queryTile);
  return finish(spec.heads);
}

/// Loads or computes what a thread needs of its queries. `grads` is the tile of
/// dO, or null.
void QueriesMapper::loadStatistics(Value grads) {
  for (int64_t i = 0; i < tiles->rowsOfThread(); ++i) {
    // A block may have rows after the last query. They load the values of the
    // last query, and their results are not stored.
    Value own = i32.add(firstOfWarp, tiles->row(i));
    Value row = i32.min(own, spec.seq - 1);
    ends.push_back(visible.endOf(row));
    lses.push_back(loadNumber(lse, numberIndex(headOfBlock, row)));
    deltas.push_back(deltaOf(i, row, own, grads));
  }
}

/// Returns the row sum of O dO, and stores it in scratch memory for the second
/// launch. The lanes that share the row add their partial sums. `row` is `own`,
/// or the last query if there is no query `own`. The thread's row `rowOfThread`
/// of dO is in the tile `grads`, if there is one.
Value QueriesMapper::deltaOf(int64_t rowOfThread, Value row, Value own,
                             Value grads) {
  OpBuilder &b = f.builder;
  Heads output = queryHeads(f.argumentBuffer(gradient.getForward()));
  int64_t width = tiles->chunk(), lanes = tiles->lanesOfRow();
  while (spec.headDim % width)
    width /= 2;
  auto load = [&](const Heads &heads, Value column, Value tile) {
    auto type = VectorType::get({width}, spec.elementType);
    Value vector;
    if (tile) {
      Value at = i32.add(i32.mul(warp, warpRows), tiles->row(rowOfThread));
      vector = b.create<vector::LoadOp>(
          f.loc, type, tile, ValueRange{i32.toIndex(at), i32.toIndex(column)});
    } else {
      Value index = indexOf(heads, headOfBlock, row, column);
      vector = b.create<vector::LoadOp>(f.loc, type, heads.memory, index);
    }
    auto wideType = VectorType::get({width}, b.getF32Type());
    return type == wideType
               ? vector
               : b.create<arith::ExtFOp>(f.loc, wideType, vector).getResult();
  };
  Value laneOfRow = i32.div(tiles->firstSumColumn(), tiles->chunk());
  auto loop = b.create<scf::ForOp>(
      f.loc, i32.mul(laneOfRow, width), i32.constant(spec.headDim),
      i32.constant(lanes * width), ValueRange{constant(0.0)},
      [&](OpBuilder &, Location, Value column, ValueRange carried) {
        Value left = load(output, column, {});
        Value right = load(gradOutput, column, grads);
        Value sum = carried[0];
        for (int64_t i = 0; i < width; ++i)
          sum = b.create<math::FmaOp>(
              f.loc, b.create<vector::ExtractOp>(f.loc, left, i),
              b.create<vector::ExtractOp>(f.loc, right, i), sum);
        b.create<scf::YieldOp>(f.loc, sum);
      });
  Value sum = tiles->acrossRow(loop.getResult(0),
                               [&](Value a, Value b) { return addF(a, b); });
  // All lanes that share a row store the same value, so that the store needs no
  // condition on the lane.
  Value stores = isFirstSlice();
  // With a layout, another thread block may have the last query.
  if (spec.block)
    stores = i32.both(stores, i32.less(own, spec.seq));
  ifThen(stores, [&] {
    b.create<memref::StoreOp>(f.loc, sum, delta, numberIndex(headOfBlock, row));
  });
  return sum;
}

MappedLaunch KeysMapper::emit() {
  chooseBlocks({/*rowTensors=*/2, /*columnTensors=*/2, /*numbers=*/2,
                /*sums=*/2, products(), /*random=*/16,
                /*rowsAreKeys=*/true});
  Value keyTile, valueTile;
  if (isSliced()) {
    keyTile = valueTile = allocateSlices();
  } else {
    keyTile = allocateRows(rowsOfBlock());
    valueTile = allocateRows(rowsOfBlock());
    queries = allocateRows(2 * columns);
    grads = allocateRows(2 * columns);
  }
  lses = allocateNumbers(2 * columns);
  deltas = allocateNumbers(2 * columns);

  Value zero = i32.constant(0);
  if (!isSliced()) {
    copyRows({keyTile, zero}, rowsOfBlock(), ownHeadRows(1), zero);
    copyRows({valueTile, zero}, rowsOfBlock(), ownHeadRows(2), zero);
    commitCopies();
    waitForCopies(0);
    Value warpRow = i32.mul(warp, warpRows);
    keys = tiles->left({keyTile, warpRow}, keepsLeft);
    values = tiles->left({valueTile, warpRow}, keepsLeft);
  }
  for (int64_t i = 0; i < tiles->rowsOfThread(); ++i)
    firsts.push_back(visible.firstSeeing(i32.add(firstOfWarp, tiles->row(i))));

  WarpTile gradKeys = tiles->zeroSums(), gradValues = gradKeys;
  Values sums(gradKeys.elements);
  sums.append(gradValues.elements);
  int64_t group = spec.heads / spec.kvHeads;
  auto loop = f.builder.create<scf::ForOp>(
      f.loc, i32.constant(0), i32.constant(group), i32.constant(1), sums,
      [&](OpBuilder &b, Location loc, Value member, ValueRange carried) {
        Value head = i32.add(i32.mul(headOfBlock, group), member);
        b.create<scf::YieldOp>(
            loc, queriesOf(head, Values(carried.begin(), carried.end())));
      });
  size_t count = gradKeys.elements.size();
  ValueRange results = loop.getResults();
  gradKeys.elements = Values(results.take_front(count));
  gradValues.elements = Values(results.drop_front(count));
  if (spec.block)
    placeWarp();
  Values scales(gradKeys.rows, constant(spec.scale));
  storeRows(gradKeys, scales, gradQkv[1], headOfBlock, keyTile);
  Values ones(gradKeys.rows, constant(1.0));
  storeRows(gradValues, ones, gradQkv[2], headOfBlock, valueTile);
  return finish(spec.kvHeads);
}

/// The rows of keys (`tensor` 1) or values (2) for which this block computes
/// gradients.
HeadRows KeysMapper::ownHeadRows(int64_t tensor) {
  return {qkv[tensor], headOfBlock, ownRows(), visible.count()};
}

/// Rows of queries, or of the gradients of attention's outputs, over which this
/// block loops.
HeadRows KeysMapper::otherRows(const Heads &heads, Value head,
                               const RowRanges &rows) {
  return {heads, head, rows, i32.constant(spec.seq)};
}

/// Adds to `sums` what the queries of one head contribute to the gradients of
/// the block's keys and values.
AttentionMapper::Values KeysMapper::queriesOf(Value head, Values sums) {
  if (spec.p > 0)
    prepareRandom(head);
  auto copy = [&](const RowRanges &tile, Value stage) {
    if (!isSliced()) {
      Value zero = i32.constant(0);
      copyRows(columnsOf(queries, stage), columns,
               otherRows(qkv[0], head, tile), zero);
      copyRows(columnsOf(grads, stage), columns,
               otherRows(gradOutput, head, tile), zero);
    }
    Value at = i32.mul(stage, columns);
    copyNumbers(lses, at, lse, head, tile);
    copyNumbers(deltas, at, delta, head, tile);
  };
  Value begin = beginOfQueries(head);
  beginColumns(begin, copy);
  size_t count = sums.size() / 2;
  return forColumns(begin, endOfQueries(), sums, copy,
                    [&](const ColumnTile &tile, ValueRange carried) {
                      WarpTile gradKeys = tiles->zeroSums(),
                               gradValues = gradKeys;
                      gradKeys.elements = Values(carried.take_front(count));
                      gradValues.elements = Values(carried.drop_front(count));
                      addQueries(head, tile, gradKeys, gradValues);
                      Values next(gradKeys.elements);
                      next.append(gradValues.elements);
                      return next;
                    });
}

void KeysMapper::addQueries(Value head, const ColumnTile &tile,
                            WarpTile &gradKeys, WarpTile &gradValues) {
  HeadRows ofQueries = otherRows(qkv[0], head, tile.ranges);
  HeadRows ofGrads = otherRows(gradOutput, head, tile.ranges);
  WarpTile weights, scores;
  if (isSliced()) {
    weights = multiplySlices(ownHeadRows(1), ofQueries);
    scores = multiplySlices(ownHeadRows(2), ofGrads);
  } else {
    weights = tiles->multiply(keys, columnsOf(queries, tile), tile.count);
    scores = tiles->multiply(values, columnsOf(grads, tile), tile.count);
  }
  Value start = i32.add(placeOf(tile), tiles->firstColumn());
  Values lsesHere, deltasHere;
  for (int64_t j = 0; j < weights.columns; ++j) {
    Value at = i32.toIndex(i32.add(start, tiles->columnOffset(j)));
    lsesHere.push_back(loadNumber(lses, at));
    deltasHere.push_back(loadNumber(deltas, at));
  }
  // With a causal mask, the block's last key is seen by fewer queries than its
  // other keys. If all queries of the tile see the last key, no element is
  // masked.
  Value lastKey =
      i32.min(i32.add(firstMasked(), rowsMasked() - 1), spec.seq - 1);
  Value isFull = i32.less(visible.firstSeeing(lastKey),
                          i32.add(tile.ranges.firsts.front(), 1));
  gradScores(
      weights, scores, tile, isFull, firsts, /*keysAreColumns=*/false,
      [&](int64_t, int64_t j) { return lsesHere[j]; },
      [&](int64_t, int64_t j) { return deltasHere[j]; });
  tiles->accumulate(gradValues, weights,
                    isSliced() ? ownSlice(ofGrads, 0) : columnsOf(grads, tile));
  tiles->accumulate(gradKeys, scores,
                    isSliced() ? ownSlice(ofQueries, 1)
                               : columnsOf(queries, tile));
}

MappedKernel mapAttentionGrad(planir::KernelOp kernel,
                              mlir::gpu::GPUModuleOp module,
                              nn::AttentionGradOp op) {
  MappedKernel mapped;
  codegen::AttentionSpec spec(op);
  FrameOptions options;
  options.flat = true;
  options.scratchBytes = mapped.scratchBytes =
      OrderScratch(spec, /*isGradient=*/true).bytes;
  if (spec.block) {
    mapped.launches.push_back(mapAttentionOrder(kernel, module, op, options));
    options.suffix = "_queries";
  }
  mapped.launches.push_back(QueriesMapper(kernel, module, op, options).emit());
  options.suffix = "_keys";
  mapped.launches.push_back(KeysMapper(kernel, module, op, options).emit());
  return mapped;
}

} // namespace heddle::gpu
