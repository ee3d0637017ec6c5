//===- ColumnSums.cpp - Columns summed by a block of threads --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the code by which the threads of a block sum each column over rows, and
// the second launch, which adds the partial sums of several blocks.
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// Emits this thread's sums over rows `begin` to `end`, for each of its
/// columns. Groups of threads take rows in turn, so this thread takes every
/// `tile.below`-th row.
static FailureOr<SmallVector<Value>>
sumRows(KernelFrame &f, const ColumnTile &tile, Value begin, Value end,
        size_t count, const Chunk &chunk, ColumnTerms terms) {
  OpBuilder &b = f.builder;
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF32FloatAttr(0));
  SmallVector<Value> zeros(count * tile.width, zero);
  auto loop =
      b.create<scf::ForOp>(f.loc, begin, end, f.constant(tile.below), zeros);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ElementEmitter::Scope scope(f.emitter, chunk);
  FailureOr<SmallVector<Value>> next =
      terms(loop.getInductionVar(), chunk, loop.getRegionIterArgs());
  if (failed(next))
    return failure();
  b.create<scf::YieldOp>(f.loc, *next);
  return SmallVector<Value>(loop.getResults());
}

Value ColumnTile::column(KernelFrame &f, Value block) const {
  return f.add(f.mul(block, size()), f.mul(f.rem(f.threadId(), across), width));
}

LogicalResult sumColumns(KernelFrame &f, const ColumnTile &tile,
                         const ColumnWork &work, size_t count,
                         ColumnTerms terms, ColumnResults results) {
  Value thread = f.threadId();
  Value below = f.div(thread, tile.across);
  Value column = tile.column(f, work.block);
  // Threads whose column is after the last one sum no rows.
  Value exists = f.compare(arith::CmpIPredicate::ult, column, tile.columns);
  Value end =
      f.builder.create<arith::SelectOp>(f.loc, exists, work.end, f.constant(0));
  FailureOr<SmallVector<Value>> own =
      sumRows(f, tile, f.add(work.begin, below), end, count,
              f.chunk(column, tile.width), terms);
  if (failed(own))
    return failure();
  return addColumnSums(f, tile, work.block, *own, columnMemory(f, tile, count),
                       results);
}

Value columnMemory(KernelFrame &f, const ColumnTile &tile, size_t count) {
  return f.addWorkgroup({static_cast<int64_t>(count), tile.below, tile.size()},
                        f.builder.getF32Type());
}

LogicalResult addColumnSums(KernelFrame &f, const ColumnTile &tile, Value block,
                            ArrayRef<Value> own, Value sums,
                            ColumnResults results) {
  OpBuilder &b = f.builder;
  size_t count = own.size() / tile.width;
  Value thread = f.threadId();
  Value below = f.div(thread, tile.across);
  Value inTile = f.mul(f.rem(thread, tile.across), tile.width);
  Value first = f.mul(block, tile.size());
  for (size_t i = 0; i < count; ++i)
    f.store(own.slice(i * tile.width, tile.width), sums,
            {f.constant(i), below, inTile});
  b.create<mlir::gpu::BarrierOp>(f.loc);
  Value mine = f.add(first, thread);
  Value isInTile = f.compare(arith::CmpIPredicate::ult, thread, tile.size());
  Value isColumn = f.compare(arith::CmpIPredicate::ult, mine, tile.columns);
  InsideIf once(f, b.create<arith::AndIOp>(f.loc, isInTile, isColumn));
  ElementEmitter::Scope scope(f.emitter);
  SmallVector<Value> totals;
  for (size_t i = 0; i < count; ++i) {
    Value total;
    for (int64_t row = 0; row < tile.below; ++row) {
      Value part = b.create<memref::LoadOp>(
          f.loc, sums, ValueRange{f.constant(i), f.constant(row), thread});
      total = total ? addFloats(f, total, part) : part;
    }
    totals.push_back(total);
  }
  return results(mine, totals);
}

Value SumParts::of(KernelFrame &f, int64_t sum, ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> all = {parts};
  all.append(shape.begin(), shape.end());
  int64_t bytes = scratchBytes() / sums;
  return f.scratch(sum * bytes, all, f.builder.getF32Type());
}

/// Chooses which columns and rows of the partial sums each thread of a block
/// adds. A few threads with adjacent columns read one sector of memory. The
/// block's other threads read other rows (the partial sums of other blocks), so
/// that no thread has to add many.
static ColumnTile tileOf(const SumParts &parts) {
  constexpr int64_t ofSector = 32 / sizeof(float);
  return ColumnTile(parts.columns, 1, ofSector);
}

LogicalResult addSumOfParts(MappedKernel &mapped, planir::KernelOp kernel,
                            mlir::gpu::GPUModuleOp module,
                            const SumParts &parts, PartResults results) {
  ColumnTile tile = tileOf(parts);
  FrameOptions options;
  options.suffix = "_sum";
  return addLaunch(
      mapped, kernel, module, options, tile.blocks, ColumnTile::threads,
      [&](KernelFrame &f) {
        SmallVector<Value> buffers;
        for (int64_t sum = 0; sum < parts.sums; ++sum)
          buffers.push_back(parts.of(f, sum, parts.columns));
        auto terms = [&](Value row, const Chunk &chunk, ValueRange running) {
          SmallVector<Value> next;
          for (auto [buffer, sum] : llvm::zip(buffers, running))
            next.push_back(
                addFloats(f, sum,
                          f.builder.create<memref::LoadOp>(
                              f.loc, buffer, ValueRange{row, chunk.base})));
          return FailureOr<SmallVector<Value>>(next);
        };
        return sumColumns(f, tile,
                          {f.blockId(mlir::gpu::Dimension::x), f.constant(0),
                           f.constant(parts.parts)},
                          parts.sums, terms,
                          [&](Value column, ArrayRef<Value> sums) {
                            return results(f, column, sums);
                          });
      });
}

} // namespace heddle::gpu
