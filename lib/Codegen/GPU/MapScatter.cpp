//===- MapScatter.cpp - The gradient of an embedding table ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the gradient of an embedding table in three launches. The first launch
// sorts the positions of tokens by the row of the table that they add to. The
// order of each sum therefore depends only on the ids of the tokens. The second
// launch fills the table with its initial values, unless the table already
// holds them. The third launch adds the gradients to the rows that tokens refer
// to: a few threads sum the gradients for a row with few positions, and a whole
// block those for a row with many.
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"
#include "SortPositions.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t threads = ColumnTile::threads;
/// The number of accesses to the table that each thread makes to fill it.
constexpr int64_t accessesToFill = 8;
/// The largest number of positions whose gradients a few adjacent threads sum
/// for one row of the table. If more positions add to the row, a whole block
/// sums their gradients.
constexpr int64_t mostAlone = 8;

/// Returns the number of adjacent columns that a thread handles together. It is
/// the number of elements that fit into one access of `accessBytes` bytes, for
/// the wider of the two element types, that of the gradients and that of the
/// table. The lanes of a warp then access consecutive bytes of both tensors.
/// The number is reduced to a divisor of the table's number of columns.
int64_t chunkOf(nn::EmbeddingGradOp op) {
  int64_t width = accessBytes;
  for (Type type : {op.getGrad().getType(), op.getOutput().getType()})
    width = std::min(width,
                     accessBytes / dist::byteSize(getElementTypeOrSelf(type)));
  return std::gcd(width, op.getOutput().getType().getDimSize(1));
}

class ScatterMapper {
public:
  ScatterMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                nn::EmbeddingGradOp op)
      : kernel(kernel), module(module), op(op), table(op.getOutput().getType()),
        positions(
            cast<RankedTensorType>(op.getIds().getType()).getNumElements()),
        columns(table.getDimSize(1)), tile(columns, chunkOf(op)),
        sorted(positions, table.getDimSize(0)) {}

  MappedKernel run();

private:
  LogicalResult emitOrder(KernelFrame &f);
  LogicalResult emitFill(KernelFrame &f);
  LogicalResult emitSums(KernelFrame &f);

  /// The number of elements that one store writes when the table is filled.
  int64_t fillWidth() const {
    return accessBytes / dist::byteSize(table.getElementType());
  }
  /// The range of the list of sorted positions that a block handles in the
  /// launch that adds gradients. The threads of the block form as many groups
  /// as the range has positions. Each group handles one position of the range,
  /// and each thread of a group handles some columns.
  struct BlockEntries {
    Value first; ///< Index, in the list, of the first position of the range.
    /// Workgroup memory with an entry for each position of the block's range.
    /// If a segment (the positions that add to one row of the table) begins at
    /// the position, the entry is the segment's end and row.
    Value segments;
    Value order;   ///< The positions, from the range's first one on.
    Value columns; ///< Index of the block's columns among those of the tile's
                   ///< blocks.
  };
  BlockEntries loadEntries(KernelFrame &f);
  LogicalResult sumFew(KernelFrame &f, const BlockEntries &entries);
  LogicalResult sumMany(KernelFrame &f, const BlockEntries &entries);
  /// The range of the sorted positions that add to the same row of the table.
  struct Segment {
    Value first, count, row;
  };
  Segment segmentAt(KernelFrame &f, const BlockEntries &entries, Value below);
  SmallVector<Value> zeros(KernelFrame &f) {
    Value zero = f.builder.create<arith::ConstantOp>(
        f.loc, f.builder.getF32FloatAttr(0));
    return SmallVector<Value>(tile.width, zero);
  }
  /// The entries of a list of positions whose gradients one thread adds up:
  /// every `step`-th entry from `begin` to `end`.
  struct Span {
    Value begin, end;
    int64_t step;
  };
  FailureOr<SmallVector<Value>> sumListed(KernelFrame &f, Value column,
                                          Value list, const Span &span,
                                          ValueRange sums);
  FailureOr<Value> rowOf(KernelFrame &f, Value position);
  FailureOr<Value> result(KernelFrame &f, Value at, Value sum);
  LogicalResult launch(StringRef suffix, int64_t blocks, int64_t blockThreads,
                       llvm::function_ref<LogicalResult(KernelFrame &)> body);

  Value integer(KernelFrame &f, int64_t value) {
    return f.builder.create<arith::ConstantIntOp>(f.loc, value, 32);
  }
  Value loadIndex(KernelFrame &f, Value memory, ValueRange at) {
    Value number = f.builder.create<memref::LoadOp>(f.loc, memory, at);
    return f.builder.create<arith::IndexCastOp>(f.loc, f.builder.getIndexType(),
                                                number);
  }
  Value less(KernelFrame &f, Value x, Value y) {
    return f.builder.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, x,
                                           y);
  }
  Value widen(KernelFrame &f, Value value) {
    return value.getType().isF32() ? value
                                   : f.builder.create<arith::ExtFOp>(
                                         f.loc, f.builder.getF32Type(), value);
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  nn::EmbeddingGradOp op;
  RankedTensorType table;
  int64_t positions, columns;
  ColumnTile tile;
  SortedPositions sorted;
  MappedKernel mapped;
};
} // namespace

/// Emits the row of the table to which a position adds. Emits the number of
/// rows if the position adds to none, for example because its token is padding.
FailureOr<Value> ScatterMapper::rowOf(KernelFrame &f, Value position) {
  OpBuilder &b = f.builder;
  FailureOr<Value> id = f.emitter.element(op.getIds(), position);
  if (failed(id))
    return failure();
  Value row = *id, none = integer(f, table.getDimSize(0));
  if (op.getFirst())
    row = b.create<arith::SubIOp>(
        f.loc, row,
        b.create<arith::TruncIOp>(f.loc, b.getI32Type(),
                                  f.argumentScalar(op.getFirst())));
  // The comparison is unsigned: ids before the table's first row give negative
  // rows, which become large numbers.
  Value adds =
      b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, row, none);
  if (std::optional<int64_t> padding = op.getPadding()) {
    Value counts = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ne, *id,
                                           integer(f, *padding));
    adds = b.create<arith::AndIOp>(f.loc, adds, counts);
  }
  return b.create<arith::SelectOp>(f.loc, adds, row, none).getResult();
}

LogicalResult ScatterMapper::emitOrder(KernelFrame &f) {
  return sorted.emit(f, [&](Value position) { return rowOf(f, position); });
}

/// Fills the table with its initial values, or with zeros.
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

/// Returns the table's element with the linear index `at`: its initial value
/// plus `sum`.
FailureOr<Value> ScatterMapper::result(KernelFrame &f, Value at, Value sum) {
  if (op.getInit()) {
    FailureOr<Value> before = f.emitter.element(op.getInit(), at);
    if (failed(before))
      return failure();
    sum = addFloats(f, widen(f, *before), sum);
  }
  if (table.getElementType().isF32())
    return sum;
  return f.builder.create<arith::TruncFOp>(f.loc, table.getElementType(), sum)
      .getResult();
}

ScatterMapper::BlockEntries ScatterMapper::loadEntries(KernelFrame &f) {
  OpBuilder &b = f.builder;
  Type i32 = b.getI32Type();
  Value block = f.blockId(mlir::gpu::Dimension::x), thread = f.threadId();
  BlockEntries entries;
  entries.columns = f.rem(block, tile.blocks);
  entries.first = f.mul(f.div(block, tile.blocks), tile.below);
  entries.segments = f.addWorkgroup({tile.below, 2}, i32);
  entries.order = f.addWorkgroup({tile.below + mostAlone}, i32);
  Value at = f.add(entries.first, thread);
  Value exists = f.compare(arith::CmpIPredicate::ult, at, positions);
  Value inside = b.create<arith::MinUIOp>(f.loc, at, f.constant(positions - 1));
  auto load = [&](int64_t count, llvm::function_ref<void()> body) {
    b.create<scf::IfOp>(f.loc,
                        f.compare(arith::CmpIPredicate::ult, thread, count),
                        [&](OpBuilder &, Location) {
                          body();
                          b.create<scf::YieldOp>(f.loc);
                        });
  };
  load(tile.below, [&] {
    auto pair = VectorType::get({2}, i32);
    Value none = b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(pair));
    Value segment = b.create<vector::LoadOp>(f.loc, pair, sorted.segments(f),
                                             ValueRange{inside, f.constant(0)});
    segment = b.create<arith::SelectOp>(f.loc, exists, segment, none);
    b.create<vector::StoreOp>(f.loc, segment, entries.segments,
                              ValueRange{thread, f.constant(0)});
  });
  load(tile.below + mostAlone, [&] {
    Value position = b.create<memref::LoadOp>(f.loc, sorted.order(f), inside);
    b.create<memref::StoreOp>(f.loc, position, entries.order, thread);
  });
  b.create<mlir::gpu::BarrierOp>(f.loc);
  return entries;
}

/// Returns the segment (the positions of one row of the table) that begins at
/// index `below` of the block's range of the sorted positions. Its count is 0
/// if no segment begins there.
ScatterMapper::Segment ScatterMapper::segmentAt(KernelFrame &f,
                                                const BlockEntries &entries,
                                                Value below) {
  auto number = [&](int64_t which) {
    return loadIndex(f, entries.segments, ValueRange{below, f.constant(which)});
  };
  Value first = f.add(entries.first, below), end = number(SortedPositions::end);
  Value count = f.builder.create<arith::SubIOp>(f.loc, end, first);
  Value begins = f.compare(arith::CmpIPredicate::ne, end, 0);
  count =
      f.builder.create<arith::SelectOp>(f.loc, begins, count, f.constant(0));
  return {first, count, number(SortedPositions::row)};
}

/// Adds to `sums` the gradients of those positions in `list` that `span`
/// selects, for the thread's columns, which begin at `column`.
FailureOr<SmallVector<Value>> ScatterMapper::sumListed(KernelFrame &f,
                                                       Value column, Value list,
                                                       const Span &span,
                                                       ValueRange sums) {
  OpBuilder &b = f.builder;
  auto loop = b.create<scf::ForOp>(f.loc, span.begin, span.end,
                                   f.constant(span.step), sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value position = loadIndex(f, list, loop.getInductionVar());
  Chunk chunk = f.chunk(f.add(f.mul(position, columns), column), tile.width);
  ElementEmitter::Scope scope(f.emitter, chunk);
  SmallVector<Value> next;
  for (auto [at, sum] : llvm::zip(chunk.columns, loop.getRegionIterArgs())) {
    FailureOr<Value> grad = f.emitter.element(op.getGrad(), at);
    if (failed(grad))
      return failure();
    next.push_back(addFloats(f, sum, widen(f, *grad)));
  }
  b.create<scf::YieldOp>(f.loc, next);
  return SmallVector<Value>(loop.getResults());
}

/// Computes the rows of the table to which few positions (tokens of the input)
/// add. The group of threads that handles the first position of such a row sums
/// the gradients at all positions of the row.
LogicalResult ScatterMapper::sumFew(KernelFrame &f,
                                    const BlockEntries &entries) {
  OpBuilder &b = f.builder;
  Value below = f.div(f.threadId(), tile.across);
  Value column = tile.column(f, entries.columns);
  Segment segment = segmentAt(f, entries, below);
  Value exists = f.compare(arith::CmpIPredicate::ult, column, columns);
  Value isFew = f.compare(
      arith::CmpIPredicate::ult,
      b.create<arith::SubIOp>(f.loc, segment.count, f.constant(1)), mostAlone);
  InsideIf few(f, b.create<arith::AndIOp>(f.loc, exists, isFew));
  FailureOr<SmallVector<Value>> sums =
      sumListed(f, column, entries.order,
                {below, f.add(below, segment.count), 1}, zeros(f));
  if (failed(sums))
    return failure();
  Chunk chunk = f.chunk(f.add(f.mul(segment.row, columns), column), tile.width);
  ElementEmitter::Scope scope(f.emitter, chunk);
  SmallVector<Value> results;
  for (auto [at, sum] : llvm::zip(chunk.columns, *sums)) {
    FailureOr<Value> value = result(f, at, sum);
    if (failed(value))
      return failure();
    results.push_back(*value);
  }
  f.store(results, f.outputBuffer(0), chunk.base);
  return success();
}

/// Computes the rows of the table to which many positions add, one row after
/// the other. All threads of the block sum the gradients for one row.
LogicalResult ScatterMapper::sumMany(KernelFrame &f,
                                     const BlockEntries &entries) {
  OpBuilder &b = f.builder;
  Value list = f.addWorkgroup({threads}, b.getI32Type());
  auto rows = b.create<scf::ForOp>(f.loc, f.constant(0), f.constant(tile.below),
                                   f.constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rows.getBody());
  Segment segment = segmentAt(f, entries, rows.getInductionVar());
  InsideIf many(f,
                f.compare(arith::CmpIPredicate::ugt, segment.count, mostAlone));
  Value column = tile.column(f, entries.columns), thread = f.threadId();
  Value exists = f.compare(arith::CmpIPredicate::ult, column, columns);
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), segment.count,
                                   f.constant(threads), zeros(f));
  {
    OpBuilder::InsertionGuard inLoop(b);
    b.setInsertionPointToStart(loop.getBody());
    // Until the barrier, other threads may still read the workgroup memory of
    // an earlier iteration. This iteration overwrites that memory.
    b.create<mlir::gpu::BarrierOp>(f.loc);
    Value left =
        b.create<arith::SubIOp>(f.loc, segment.count, loop.getInductionVar());
    Value count = b.create<arith::MinUIOp>(f.loc, left, f.constant(threads));
    b.create<scf::IfOp>(
        f.loc, less(f, thread, count), [&](OpBuilder &, Location) {
          Value at =
              f.add(f.add(segment.first, loop.getInductionVar()), thread);
          b.create<memref::StoreOp>(
              f.loc, b.create<memref::LoadOp>(f.loc, sorted.order(f), at), list,
              thread);
          b.create<scf::YieldOp>(f.loc);
        });
    b.create<mlir::gpu::BarrierOp>(f.loc);
    // Threads whose columns are after the table's last column loop over no
    // positions, so that they read no gradients.
    Value end = b.create<arith::SelectOp>(f.loc, exists, count, f.constant(0));
    FailureOr<SmallVector<Value>> sums = sumListed(
        f, column, list, {f.div(thread, tile.across), end, tile.below},
        loop.getRegionIterArgs());
    if (failed(sums))
      return failure();
    b.create<scf::YieldOp>(f.loc, *sums);
  }
  return addColumnSums(f, tile, entries.columns,
                       SmallVector<Value>(loop.getResults()),
                       columnMemory(f, tile, 1),
                       [&](Value own, ArrayRef<Value> sums) -> LogicalResult {
                         Value at = f.add(f.mul(segment.row, columns), own);
                         FailureOr<Value> value = result(f, at, sums[0]);
                         if (failed(value))
                           return failure();
                         f.store(*value, f.outputBuffer(0), at);
                         return success();
                       });
}

LogicalResult ScatterMapper::emitSums(KernelFrame &f) {
  BlockEntries entries = loadEntries(f);
  return failure(failed(sumFew(f, entries)) || failed(sumMany(f, entries)));
}

LogicalResult
ScatterMapper::launch(StringRef suffix, int64_t blocks, int64_t blockThreads,
                      llvm::function_ref<LogicalResult(KernelFrame &)> body) {
  FrameOptions options;
  options.flat = true;
  options.suffix = suffix.str();
  return addLaunch(mapped, kernel, module, options, {blocks}, blockThreads,
                   body);
}

MappedKernel ScatterMapper::run() {
  int64_t tie = kernel.getTies()[0];
  bool isInPlace = op.getInit() && tie >= 0 &&
                   kernel.getBody().getArgument(tie) == op.getInit();
  int64_t part = threads * fillWidth() * accessesToFill;
  mapped.scratchBytes = sorted.scratchBytes();
  auto order = [&](KernelFrame &f) { return emitOrder(f); };
  auto fill = [&](KernelFrame &f) { return emitFill(f); };
  auto sums = [&](KernelFrame &f) { return emitSums(f); };
  if (failed(launch("", sorted.blocks(), SortedPositions::threads, order)) ||
      (!isInPlace &&
       failed(launch("_fill", llvm::divideCeil(table.getNumElements(), part),
                     threads, fill))) ||
      failed(launch("_rows",
                    llvm::divideCeil(positions, tile.below) * tile.blocks,
                    threads, sums)))
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
