//===- SignScales.cpp - Scales of averages in one bit ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits nn.sign_scales: sums of pieces of tensors, in double precision, and the
// scales that follow from them; and nn.join_scales. The pieces do not depend on
// the card, so that neither do the sums.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "SignCode.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu::signs {

/// Emits the number of elements of chunk `number` of a tensor that are no
/// padding, as an i64. The tensor has `count` elements, each of its chunks
/// `length` words.
static Value countInChunk(ThreadCode &c, Value count, Value length,
                          Value number) {
  length = c.mul(c.wide(length), bits);
  Value before = c.create<arith::MulIOp>(c.wide(number), length);
  Value rest = c.create<arith::MaxSIOp>(c.sub(count, before),
                                        c.zero(c.builder.getI64Type()));
  return c.create<arith::MinSIOp>(rest, length);
}

/// Sums the squares of a piece of a row of a tensor.
LogicalResult SignCode::emitPieces(nn::SignScalesOp op,
                                   ArrayRef<int32_t> pieces) {
  Type i64 = b.getI64Type(), f64 = b.getF64Type();
  int64_t rows = dim(op.getScales(), 0);
  Value slots = f.addWorkgroup({threads / warpSize}, f64);
  ConstantTable firstPieces(f, tables.prefix + "_pieces", pieces);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, pieces.back());
  Value piece = c.toI32(f.rem(block, pieces.back()));
  Value tensor = firstPieces.search(numTensors() - 1, piece);
  Value count = counts.at(tensor);
  if (op.getChunked())
    count = countInChunk(c, count, lengthOf(tensor),
                         numberOf(op.getFirst(), c.toI32(row)));
  constexpr int64_t elements = pieceWords * bits;
  Value begin = c.mul(c.wide(c.sub(piece, firstPieces.at(tensor))), elements);
  Value end = b.create<arith::ConstantIntOp>(f.loc, elements, i64);
  begin = min(begin, count);
  end = min(c.add(begin, end), count);
  Value origin = inMatrix(
      row, dim(op.getInput(), 0) / rows,
      elementOf(op.getChunked() ? offsets.at(tensor) : begins.at(tensor)));
  auto element = [&](Value inTensor) {
    return f.add(origin,
                 c.create<arith::IndexCastOp>(b.getIndexType(), inTensor));
  };
  // A tensor may end inside of an access. The elements after it do not count.
  // A piece after the end begins where the tensor ends.
  auto sums = forChunks(
      f, element(begin), element(end), /*isWhole=*/false, {width, threads},
      c.zero(f64), [&](const Chunk &chunk, ValueRange carried) {
        return sumSquares(f, op.getInput(), chunk, carried[0]);
      });
  if (failed(sums))
    return failure();
  Value total =
      acrossBlock(f, sums->front(), threads, slots,
                  [&](Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(total, f.scratch(0, {rows * pieces.back()}, f64), block);
  return success();
}

/// Adds the sums of the pieces of a row of a tensor, which a block of one warp
/// does.
LogicalResult SignCode::emitScales(nn::SignScalesOp op,
                                   ArrayRef<int32_t> pieces) {
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  int64_t rows = dim(op.getScales(), 0);
  ConstantTable firstPieces(f, tables.prefix + "_pieces", pieces);
  Value sums = f.scratch(0, {rows * pieces.back()}, f64);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, numTensors()), tensor = f.rem(block, numTensors());
  auto bound = [&](Value of) {
    return inMatrix(row, pieces.back(), c.toIndex(firstPieces.at(of)));
  };
  auto total = forChunks(
      f, bound(tensor), bound(next(tensor)), /*isWhole=*/true, {1, warpSize},
      c.zero(f64), [&](const Chunk &chunk, ValueRange carried) {
        Value sum =
            b.create<memref::LoadOp>(f.loc, sums, ValueRange(chunk.base));
        return FailureOr<SmallVector<Value>>({addFloats(f, carried[0], sum)});
      });
  Value sum = acrossBlock(f, total->front(), warpSize, {},
                          [&](Value x, Value y) { return addFloats(f, x, y); });
  Value count = counts.at(tensor);
  if (op.getChunked())
    count = countInChunk(c, count, lengthOf(tensor),
                         numberOf(op.getFirst(), c.toI32(row)));
  Value one = b.create<arith::ConstantIntOp>(f.loc, 1, b.getI64Type());
  count = c.create<arith::MaxSIOp>(count, one);
  Value mean =
      c.create<arith::DivFOp>(sum, c.create<arith::SIToFPOp>(f64, count));
  Value scale = c.narrow(b.create<math::SqrtOp>(f.loc, mean), f32);
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(c.orZero(isTrue(op.getCondition()), scale), f.outputBuffer(0), block);
  return success();
}

/// A block of one warp adds what the tensors of a row contribute.
void SignCode::emit(nn::JoinScalesOp op) {
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  Value row = f.blockId(mlir::gpu::Dimension::x);
  auto sums = forChunks(
      f, f.constant(0), f.constant(numTensors()), /*isWhole=*/true,
      {1, warpSize}, {c.zero(f64), c.zero(f64)},
      [&](const Chunk &chunk,
          ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value tensor = chunk.base, count = counts.at(tensor);
        if (op.getChunked())
          count = countInChunk(c, count, lengthOf(tensor),
                               numberOf(op.getFirst(), c.toI32(row)));
        Value elements = c.create<arith::SIToFPOp>(f64, count);
        Value scale = c.create<arith::ExtFOp>(
            f64, load(op.getScales(), inMatrix(row, numTensors(), tensor)));
        Value squares = c.create<arith::MulFOp>(
            c.create<arith::MulFOp>(scale, scale), elements);
        return SmallVector<Value>{addFloats(f, carried[0], squares),
                                  addFloats(f, carried[1], elements)};
      });
  SmallVector<Value> totals =
      acrossBlock(f, *sums, warpSize, {},
                  [&](size_t, Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  for (auto [number, total] : llvm::enumerate(totals))
    f.store(c.create<arith::TruncFOp>(f32, total),
            f.outputBuffer(static_cast<unsigned>(number)), row);
}

} // namespace heddle::gpu::signs
