//===- MapScatter.cpp - The gradient of an embedding table ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Without atomics, so that the order of each sum follows from the ids alone.
// The first launch sorts the positions by the row that they add to: the place
// of each is the number of those that come before it, which threads count. The
// second writes what the table is without any position, unless that stands
// there already. Then each row that has positions is written by one block.
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t threads = 256;
/// Threads that count for one position.
constexpr int64_t counters = 8;
/// Rows that a thread compares at once.
constexpr int64_t group = accessBytes / sizeof(int32_t);
/// Elements of the table that a block fills, as accesses of a thread.
constexpr int64_t accessesToFill = 8;

class ScatterMapper {
public:
  ScatterMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                nn::EmbeddingGradOp op)
      : kernel(kernel), module(module), op(op), table(op.getOutput().getType()),
        ids(cast<RankedTensorType>(op.getIds().getType())),
        positions(ids.getNumElements()) {}

  MappedKernel run();

private:
  LogicalResult emitOrder(KernelFrame &f);
  LogicalResult emitFill(KernelFrame &f);
  LogicalResult emitSums(KernelFrame &f);

  /// Elements of the table in one access.
  int64_t fillWidth() const {
    return accessBytes / dist::byteSize(table.getElementType());
  }
  FailureOr<Value> rowOf(KernelFrame &f, Value position);
  FailureOr<Value> sharedRow(KernelFrame &f, Value position);
  SmallVector<Value> compare(KernelFrame &f, Value rows, Value tile,
                             Value position, Value row, ValueRange counts);
  LogicalResult launch(StringRef suffix, bool flat, int64_t blocks,
                       llvm::function_ref<LogicalResult(KernelFrame &)> body);
  /// The positions in order; and at the first of each row, where those of the
  /// row end. Zero elsewhere.
  Value order(KernelFrame &f) { return list(f, 0); }
  Value ends(KernelFrame &f) { return list(f, 1); }
  Value list(KernelFrame &f, int64_t number) {
    return f.scratch(number * positions * static_cast<int64_t>(sizeof(int32_t)),
                     {positions}, f.builder.getI32Type());
  }
  Value integer(KernelFrame &f, int64_t value) {
    return f.builder.create<arith::ConstantIntOp>(f.loc, value, 32);
  }
  Value toInt(KernelFrame &f, Value index) {
    return f.builder.create<arith::IndexCastOp>(f.loc, f.builder.getI32Type(),
                                                index);
  }
  Value toIndex(KernelFrame &f, Value value) {
    return f.builder.create<arith::IndexCastOp>(f.loc, f.builder.getIndexType(),
                                                value);
  }
  Value widen(KernelFrame &f, Value value) {
    return value.getType().isF32() ? value
                                   : f.builder.create<arith::ExtFOp>(
                                         f.loc, f.builder.getF32Type(), value);
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  nn::EmbeddingGradOp op;
  RankedTensorType table, ids;
  int64_t positions;
  MappedKernel mapped;
};
} // namespace

/// The row that a position adds to; the number of rows where it adds to none.
FailureOr<Value> ScatterMapper::rowOf(KernelFrame &f, Value position) {
  OpBuilder &b = f.builder;
  ElementEmitter::Scope scope(f.emitter);
  FailureOr<Value> id =
      f.emitter.element(op.getIds(), f.delinearize(position, ids.getShape()));
  if (failed(id))
    return failure();
  Value row = *id, none = integer(f, table.getDimSize(0));
  if (op.getFirst())
    row = b.create<arith::SubIOp>(
        f.loc, row,
        b.create<arith::TruncIOp>(f.loc, b.getI32Type(),
                                  f.argumentScalar(op.getFirst())));
  // Rows before the first become large unsigned numbers.
  Value adds =
      b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, row, none);
  if (std::optional<int64_t> padding = op.getPadding()) {
    Value counts = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ne, *id,
                                           integer(f, *padding));
    adds = b.create<arith::AndIOp>(f.loc, adds, counts);
  }
  return b.create<arith::SelectOp>(f.loc, adds, row, none).getResult();
}

/// The row of a position that may lie beyond the last: then one that comes
/// after all others.
FailureOr<Value> ScatterMapper::sharedRow(KernelFrame &f, Value position) {
  OpBuilder &b = f.builder;
  Value last = f.constant(positions - 1);
  FailureOr<Value> row =
      rowOf(f, b.create<arith::MinUIOp>(f.loc, position, last));
  if (failed(row))
    return failure();
  Value exists = f.compare(arith::CmpIPredicate::ult, position, positions);
  return b
      .create<arith::SelectOp>(f.loc, exists, *row,
                               integer(f, std::numeric_limits<int32_t>::max()))
      .getResult();
}

/// What `counts` become with the rows of one tile: how many come before `row`,
/// how many are the same, and how many of those are of earlier positions.
SmallVector<Value> ScatterMapper::compare(KernelFrame &f, Value rows,
                                          Value tile, Value position, Value row,
                                          ValueRange counts) {
  OpBuilder &b = f.builder;
  Value part = f.rem(f.threadId(), counters);
  auto loop =
      b.create<scf::ForOp>(f.loc, f.mul(part, group), f.constant(threads),
                           f.constant(counters * group), counts);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar();
  Value others = b.create<vector::LoadOp>(
      f.loc, VectorType::get({group}, b.getI32Type()), rows, at);
  Value distance =
      b.create<arith::SubIOp>(f.loc, position, toInt(f, f.add(tile, at)));
  SmallVector<Value> next(loop.getRegionIterArgs());
  auto add = [&](Value &sum, Value condition) {
    Value one = b.create<arith::ExtUIOp>(f.loc, b.getI32Type(), condition);
    sum = b.create<arith::AddIOp>(f.loc, sum, one);
  };
  auto holds = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return b.create<arith::CmpIOp>(f.loc, predicate, x, y);
  };
  for (int64_t i = 0; i < group; ++i) {
    Value other = b.create<vector::ExtractOp>(f.loc, others, i);
    Value isSame = holds(arith::CmpIPredicate::eq, other, row);
    Value isEarlier = holds(arith::CmpIPredicate::sgt, distance, integer(f, i));
    add(next[0], holds(arith::CmpIPredicate::slt, other, row));
    add(next[1], isSame);
    add(next[2], b.create<arith::AndIOp>(f.loc, isSame, isEarlier));
  }
  b.create<scf::YieldOp>(f.loc, next);
  return SmallVector<Value>(loop.getResults());
}

LogicalResult ScatterMapper::emitOrder(KernelFrame &f) {
  OpBuilder &b = f.builder;
  Value rows = f.addWorkgroup({threads}, b.getI32Type());
  Value thread = f.threadId();
  Value position =
      f.add(f.mul(f.blockId(mlir::gpu::Dimension::x), threads / counters),
            f.div(thread, counters));
  FailureOr<Value> row = sharedRow(f, position);
  if (failed(row))
    return failure();
  SmallVector<Value> counts(3, integer(f, 0));
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), f.constant(positions),
                                   f.constant(threads), counts);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value tile = loop.getInductionVar();
    FailureOr<Value> other = sharedRow(f, f.add(tile, thread));
    if (failed(other))
      return failure();
    f.store(*other, rows, thread);
    b.create<mlir::gpu::BarrierOp>(f.loc);
    SmallVector<Value> next = compare(f, rows, tile, toInt(f, position), *row,
                                      loop.getRegionIterArgs());
    b.create<mlir::gpu::BarrierOp>(f.loc);
    b.create<scf::YieldOp>(f.loc, next);
  }
  counts.assign(loop.getResults().begin(), loop.getResults().end());
  for (Value &count : counts)
    for (int64_t offset = counters / 2; offset; offset /= 2)
      count = b.create<arith::AddIOp>(f.loc, count, exchange(f, count, offset));
  Value isOwner =
      f.compare(arith::CmpIPredicate::eq, f.rem(thread, counters), 0);
  Value exists = f.compare(arith::CmpIPredicate::ult, position, positions);
  auto once = b.create<scf::IfOp>(
      f.loc, b.create<arith::AndIOp>(f.loc, isOwner, exists));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(once.thenBlock());
  Value place = b.create<arith::AddIOp>(f.loc, counts[0], counts[2]);
  Value end = b.create<arith::AddIOp>(f.loc, counts[0], counts[1]);
  Value isRow = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::slt, *row,
                                        integer(f, table.getDimSize(0)));
  Value isFirst = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::eq,
                                          counts[2], integer(f, 0));
  Value begins = b.create<arith::AndIOp>(f.loc, isRow, isFirst);
  end = b.create<arith::SelectOp>(f.loc, begins, end, integer(f, 0));
  f.store(toInt(f, position), order(f), toIndex(f, place));
  f.store(end, ends(f), toIndex(f, place));
  return success();
}

/// The table without any position: what is added to, or zeros.
LogicalResult ScatterMapper::emitFill(KernelFrame &f) {
  OpBuilder &b = f.builder;
  int64_t width = fillWidth(), size = table.getNumElements();
  int64_t part = threads * width * accessesToFill;
  Value begin = f.mul(f.blockId(mlir::gpu::Dimension::x), part);
  Value end =
      b.create<arith::MinUIOp>(f.loc, f.add(begin, part), f.constant(size));
  Value zero = b.create<arith::ConstantOp>(
      f.loc, b.getFloatAttr(table.getElementType(), 0));
  return forChunks(
      f, begin, end, size % width == 0, {width, threads}, {},
      [&](const Chunk &chunk, ValueRange) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> values;
        for (Value at : chunk.columns) {
          FailureOr<Value> value = zero;
          if (op.getInit())
            value = f.emitter.element(op.getInit(), at);
          if (failed(value))
            return failure();
          values.push_back(*value);
        }
        f.store(values, f.outputBuffer(0), chunk.base);
        return SmallVector<Value>();
      });
}

/// One row of the table, if its first position stands at this block's place.
LogicalResult ScatterMapper::emitSums(KernelFrame &f) {
  OpBuilder &b = f.builder;
  int64_t columns = table.getDimSize(1);
  ColumnTile tile(columns, widestChunk(kernel, columns));
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value place = f.div(block, tile.blocks), order = this->order(f);
  auto positionAt = [&](Value at) {
    return toIndex(f, b.create<memref::LoadOp>(f.loc, order, ValueRange(at)));
  };
  Value end =
      toIndex(f, b.create<memref::LoadOp>(f.loc, ends(f), ValueRange(place)));
  auto begins =
      b.create<scf::IfOp>(f.loc, f.compare(arith::CmpIPredicate::ne, end, 0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(begins.thenBlock());
  FailureOr<Value> rowNumber = rowOf(f, positionAt(place));
  if (failed(rowNumber))
    return failure();
  Value row = toIndex(f, *rowNumber);
  auto terms = [&](Value at, const Chunk &chunk,
                   ValueRange running) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> indices = f.delinearize(positionAt(at), ids.getShape());
    indices.push_back({});
    SmallVector<Value> next;
    for (auto [column, sum] : llvm::zip(chunk.columns, running)) {
      indices.back() = column;
      FailureOr<Value> grad = f.emitter.element(op.getGrad(), indices);
      if (failed(grad))
        return failure();
      next.push_back(addFloats(f, sum, widen(f, *grad)));
    }
    return next;
  };
  return sumColumns(f, tile, {f.rem(block, tile.blocks), place, end}, 1, terms,
                    [&](Value column, ArrayRef<Value> sums) -> LogicalResult {
                      Value total = sums[0];
                      if (op.getInit()) {
                        FailureOr<Value> before =
                            f.emitter.element(op.getInit(), {row, column});
                        if (failed(before))
                          return failure();
                        total = addFloats(f, widen(f, *before), total);
                      }
                      if (!table.getElementType().isF32())
                        total = b.create<arith::TruncFOp>(
                            f.loc, table.getElementType(), total);
                      f.store(total, f.outputBuffer(0), {row, column});
                      return success();
                    });
}

LogicalResult
ScatterMapper::launch(StringRef suffix, bool flat, int64_t blocks,
                      llvm::function_ref<LogicalResult(KernelFrame &)> body) {
  FrameOptions options;
  options.flat = flat;
  options.suffix = suffix.str();
  return addLaunch(mapped, kernel, module, options, {blocks}, threads, body);
}

MappedKernel ScatterMapper::run() {
  int64_t columns = table.getDimSize(1);
  ColumnTile tile(columns, widestChunk(kernel, columns));
  int64_t tie = kernel.getTies()[0];
  bool isInPlace = op.getInit() && tie >= 0 &&
                   kernel.getBody().getArgument(tie) == op.getInit();
  int64_t part = threads * fillWidth() * accessesToFill;
  mapped.scratchBytes = 2 * positions * static_cast<int64_t>(sizeof(int32_t));
  auto order = [&](KernelFrame &f) { return emitOrder(f); };
  auto fill = [&](KernelFrame &f) { return emitFill(f); };
  auto sums = [&](KernelFrame &f) { return emitSums(f); };
  if (failed(launch("", /*flat=*/false,
                    llvm::divideCeil(positions, threads / counters), order)) ||
      (!isInPlace &&
       failed(launch("_fill", /*flat=*/true,
                     llvm::divideCeil(table.getNumElements(), part), fill))) ||
      failed(launch("_rows", /*flat=*/false, positions * tile.blocks, sums)))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel mapScatter(planir::KernelOp kernel,
                        mlir::gpu::GPUModuleOp module) {
  Operation &first = kernel.getBody().front().front();
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(0);
  auto op = yielded.getDefiningOp<nn::EmbeddingGradOp>();
  if (!op || op != &first)
    return MappedKernel::no("more than the gradient of an embedding table");
  return ScatterMapper(kernel, module, op).run();
}

} // namespace heddle::gpu
