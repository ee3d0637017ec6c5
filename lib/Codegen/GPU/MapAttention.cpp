//===- MapAttention.cpp - The forward pass of attention -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the forward pass of attention as in FlashAttention (Dao et al., arXiv
// 2205.14135). A block has some queries of one head, and loops over blocks of
// keys:
//
//   S = Q K^T scale log2(e)         in units of log 2; with a soft cap c,
//                                   S = c log2(e) tanh(Q K^T scale / c)
//   m' = max(m, row maxima of S), a = 2^(m - m')
//   P = 2^(S - m'), l = a l + row sums of P
//   O = a O + P V
//
// After the last block, output = O / l and lse = m ln(2) + ln(l). A layout says
// which blocks of keys there are; the formulas are the same.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "CacheAddresses.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace {
class ForwardMapper : public AttentionMapper {
public:
  ForwardMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                nn::AttentionOp op, const FrameOptions &options)
      : AttentionMapper(kernel, module, op, options), forward(op),
        qkv(splitHeads(buffersOf(op.getQkv()))) {}

  MappedLaunch emit();

private:
  /// The values that a warp carries for its queries from one block of keys to
  /// the next.
  struct State {
    Values maxima, sums; ///< Maximum of each row; this thread's part of the sum
                         ///< of each row.
    WarpTile output;

    Values flat() const;
    void assign(ValueRange values);
  };

  void copyColumns(const RowRanges &tile, Value stage);
  HeadRows headRows(int64_t tensor, const RowRanges &rows);
  void addColumns(const LeftRows &queries, const ColumnTile &tile,
                  State &state);
  WarpTile probabilities(WarpTile scores, State &state);
  void store(const State &state);
  Value largest(Value a, Value b) {
    return f.builder.create<arith::MaxNumFOp>(f.loc, a, b);
  }
  /// Whether scaling is monotonic, so that the largest product of a row also
  /// has the largest score. If so, the maximum of a row is found before its
  /// products are scaled.
  bool isScaledLast() const { return spec.scale > 0 && spec.softcap == 0; }

  nn::AttentionOp forward;
  std::array<Heads, 3> qkv;
  Value kvHead, queryTile, keys, values;
  Values ends; ///< For each query of the thread: end of the keys it sees.
};
} // namespace

AttentionMapper::Values ForwardMapper::State::flat() const {
  Values all(maxima);
  all.append(sums);
  all.append(output.elements);
  return all;
}

void ForwardMapper::State::assign(ValueRange values) {
  size_t rows = output.rows;
  auto range = [&](size_t from, size_t count) {
    ValueRange part = values.slice(from, count);
    return Values(part.begin(), part.end());
  };
  maxima = range(0, rows);
  sums = range(rows, rows);
  output.elements = range(2 * rows, values.size() - 2 * rows);
}

MappedLaunch ForwardMapper::emit() {
  chooseBlocks({/*rowTensors=*/1, /*columnTensors=*/2, /*numbers=*/0,
                /*sums=*/1, /*products=*/1});
  kvHead = i32.div(headOfBlock, spec.heads / spec.kvHeads);
  if (isSliced()) {
    queryTile = allocateSlices();
  } else {
    queryTile = allocateRows(rowsOfBlock());
    keys = allocateRows(2 * columns);
    values = allocateRows(2 * columns);
  }
  if (spec.p > 0)
    prepareRandom(headOfBlock);

  Value zero = i32.constant(0);
  if (!isSliced())
    copyRows({queryTile, zero}, rowsOfBlock(), headRows(0, ownRows()), zero);
  commitCopies();
  auto copy = [&](const RowRanges &tile, Value stage) {
    copyColumns(tile, stage);
  };
  Value begin = beginOfKeys();
  beginColumns(begin, copy);
  waitForCopies(1);
  LeftRows queries;
  if (!isSliced())
    queries = tiles->left({queryTile, i32.mul(warp, warpRows)}, keepsLeft);

  State state;
  state.output = tiles->zeroSums();
  state.maxima.assign(state.output.rows,
                      constant(std::numeric_limits<float>::lowest()));
  state.sums.assign(state.output.rows, constant(0.0));
  for (int64_t i = 0; i < state.output.rows; ++i)
    ends.push_back(visible.endOf(i32.add(firstOfWarp, tiles->row(i))));
  Value end = endOfKeys();
  state.assign(forColumns(begin, end, state.flat(), copy,
                          [&](const ColumnTile &tile, ValueRange carried) {
                            state.assign(carried);
                            addColumns(queries, tile, state);
                            return state.flat();
                          }));
  if (spec.block)
    placeWarp();
  store(state);
  return finish(spec.heads);
}

/// Rows of the queries (`tensor` 0), keys (1) or values (2) of this block's
/// head.
HeadRows ForwardMapper::headRows(int64_t tensor, const RowRanges &rows) {
  if (tensor == 0)
    return {qkv[0], headOfBlock, rows, i32.constant(spec.seq)};
  return {qkv[tensor], kvHead, rows, visible.count()};
}

/// Copies a tile of keys and values to workgroup memory. If the features of a
/// head are processed in slices, it copies nothing: `multiplySlices` and
/// `ownSlice` then copy the slices of keys and values that they use.
void ForwardMapper::copyColumns(const RowRanges &tile, Value stage) {
  if (isSliced())
    return;
  Value zero = i32.constant(0);
  copyRows(columnsOf(keys, stage), columns, headRows(1, tile), zero);
  copyRows(columnsOf(values, stage), columns, headRows(2, tile), zero);
}

void ForwardMapper::addColumns(const LeftRows &queries, const ColumnTile &tile,
                               State &state) {
  WarpTile scores =
      isSliced()
          ? multiplySlices(headRows(0, ownRows()), headRows(1, tile.ranges))
          : tiles->multiply(queries, columnsOf(keys, tile), tile.count);
  if (!isScaledLast())
    for (Value &score : scores.elements)
      score = spec.softcap > 0 ? capped(score)
                               : mulF(score, constant(spec.scoreFactor()));
  Value isFull = i32.less(lastOf(tile), visible.endOf(firstMasked()));
  hide(scores, tile, isFull, ends, /*below=*/true);
  hideTooOldKeys(scores, tile);
  WarpTile weights = probabilities(scores, state);
  if (spec.p > 0) {
    Values kept = keep(weights, firstOfWarp, tile, /*keysAreColumns=*/true);
    for (auto [weight, isKept] : llvm::zip(weights.elements, kept))
      weight = i32.select(isKept, weight, constant(0.0));
  }
  tiles->accumulate(state.output, weights,
                    isSliced() ? ownSlice(headRows(2, tile.ranges), 0)
                               : columnsOf(values, tile));
}

/// Turns scores into probabilities relative to the new maxima of the rows.
/// Updates `state`, which has the maxima and the sums of the rows.
WarpTile ForwardMapper::probabilities(WarpTile scores, State &state) {
  for (int64_t i = 0; i < scores.rows; ++i) {
    Value most = scores.at(i, 0);
    for (int64_t j = 1; j < scores.columns; ++j)
      most = largest(most, scores.at(i, j));
    most =
        tiles->acrossRow(most, [&](Value a, Value b) { return largest(a, b); });
    if (isScaledLast())
      most = mulF(most, constant(spec.scoreFactor()));
    most = largest(most, state.maxima[i]);
    Value factor = exp2(subF(state.maxima[i], most));
    state.maxima[i] = most;
    Value sum, negated = f.builder.create<arith::NegFOp>(f.loc, most);
    for (int64_t j = 0; j < scores.columns; ++j) {
      Value &score = scores.at(i, j);
      score = exp2(isScaledLast() ? fmaF(score, spec.scoreFactor(), negated)
                                  : subF(score, most));
      sum = sum ? addF(sum, score) : score;
    }
    state.sums[i] = addF(mulF(state.sums[i], factor), sum);
    for (int64_t j = 0; j < state.output.columns; ++j)
      state.output.at(i, j) = mulF(state.output.at(i, j), factor);
  }
  return scores;
}

void ForwardMapper::store(const State &state) {
  OpBuilder &b = f.builder;
  Value lse = bufferOf(forward.getLse());
  Values factors;
  for (int64_t i = 0; i < state.output.rows; ++i) {
    Value sum = tiles->acrossRow(state.sums[i],
                                 [&](Value a, Value b) { return addF(a, b); });
    Value seesAny = b.create<arith::CmpFOp>(f.loc, arith::CmpFPredicate::OGT,
                                            sum, constant(0.0));
    Value factor =
        b.create<arith::DivFOp>(f.loc, constant(1.0 / (1.0 - spec.p)), sum);
    if (visible.maySeeNoKey())
      factor = i32.select(seesAny, factor, constant(0.0));
    factors.push_back(factor);
    if (!lse)
      continue;
    Value result = addF(mulF(state.maxima[i], constant(M_LN2)),
                        b.create<math::LogOp>(f.loc, sum));
    if (visible.maySeeNoKey())
      result = i32.select(seesAny, result,
                          constant(std::numeric_limits<float>::lowest()));
    Value row = i32.add(firstOfWarp, tiles->row(i));
    Value isFirst = b.create<arith::AndIOp>(
        f.loc, i32.less(row, spec.seq),
        i32.less(tiles->firstSumColumn(), tiles->chunk()));
    isFirst = b.create<arith::AndIOp>(f.loc, isFirst, isFirstSlice());
    ifThen(isFirst, [&] {
      b.create<memref::StoreOp>(f.loc, result, lse,
                                numberIndex(headOfBlock, row));
    });
  }
  storeRows(state.output, factors, queryHeads(bufferOf(forward.getOutput())),
            headOfBlock, queryTile);
}

static MappedKernel mapForward(planir::KernelOp kernel,
                               mlir::gpu::GPUModuleOp module,
                               nn::AttentionOp op) {
  FrameOptions options;
  options.flat = true;
  MappedKernel mapped;
  codegen::AttentionSpec spec(op);
  mapped.scratchBytes = options.scratchBytes =
      OrderScratch(spec, /*isGradient=*/false).bytes;
  if (spec.block) {
    mapped.launches.push_back(mapAttentionOrder(kernel, module, op, options));
    options.suffix = "_queries";
  }
  mapped.launches.push_back(ForwardMapper(kernel, module, op, options).emit());
  return mapped;
}

MappedKernel mapAttention(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module, const Chip &chip) {
  Block &body = kernel.getBody().front();
  for (auto paged : body.getOps<nn::PagedAttentionOp>())
    return mapPagedAttention(kernel, module, paged, chip);
  if (auto join = dyn_cast<nn::PagedAttentionJoinOp>(body.front()))
    return mapPagedJoin(kernel, module, join);
  auto op = dyn_cast<nn::AttentionOpInterface>(body.front());
  if (!op || op->getNextNode() != body.getTerminator())
    return MappedKernel::no("attention with other operations");
  // A result in place of an argument would overwrite elements that other
  // blocks, or later launches of the same kernel, have yet to read.
  if (llvm::any_of(kernel.getTies(), [](int64_t tie) { return tie >= 0; }))
    return MappedKernel::no("attention in place");
  auto timesYielded = [&](Value result) {
    return llvm::count(body.getTerminator()->getOperands(), result);
  };
  auto isYielded = [&](Value result) { return timesYielded(result) > 0; };
  auto forward = dyn_cast<nn::AttentionOp>(*op);
  // Inference and evaluation do not use lse, the second result of the forward
  // pass, so that their kernels need not yield it.
  if (forward ? !isYielded(forward.getOutput())
              : !llvm::all_of(op->getResults(), isYielded))
    return MappedKernel::no("attention whose results are not all yielded");
  if (llvm::any_of(op->getResults(),
                   [&](Value result) { return timesYielded(result) > 1; }))
    return MappedKernel::no("attention that yields a result twice");
  codegen::AttentionSpec spec(op);
  if (spec.block && spec.layoutBlocks * spec.block < spec.wholeSeq()) {
    op->emitError("H0143: its layout is shorter than the sequence");
    return MappedKernel::no("attention with a layout that is too short");
  }
  return forward
             ? mapForward(kernel, module, forward)
             : mapAttentionGrad(kernel, module, cast<nn::AttentionGradOp>(*op));
}

} // namespace heddle::gpu
