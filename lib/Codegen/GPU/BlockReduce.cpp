//===- BlockReduce.cpp - Values combined over a block's threads -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits reductions over the threads of a block, by shuffles and through
// workgroup memory. Also emits loops that distribute elements over the threads.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "heddle/Codegen/Common/RowsForm.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

// A shuffle moves 32 bits, so that exchanging an f64 takes two shuffles.
Value exchange(KernelFrame &f, Value value, int64_t offset) {
  OpBuilder &b = f.builder;
  auto shuffle = [&](Value part) -> Value {
    return b
        .create<mlir::gpu::ShuffleOp>(f.loc, part, offset, warpSize,
                                      mlir::gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  if (!value.getType().isF64())
    return shuffle(value);
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value bits = b.create<arith::BitcastOp>(f.loc, i64, value);
  Value width = b.create<arith::ConstantIntOp>(f.loc, 32, i64);
  Value low = b.create<arith::TruncIOp>(f.loc, i32, bits);
  Value high = b.create<arith::TruncIOp>(
      f.loc, i32, b.create<arith::ShRUIOp>(f.loc, bits, width));
  low = b.create<arith::ExtUIOp>(f.loc, i64, shuffle(low));
  high = b.create<arith::ExtUIOp>(f.loc, i64, shuffle(high));
  high = b.create<arith::ShLIOp>(f.loc, high, width);
  bits = b.create<arith::OrIOp>(f.loc, low, high);
  return b.create<arith::BitcastOp>(f.loc, value.getType(), bits);
}

SmallVector<Value> acrossBlock(KernelFrame &f, ValueRange values,
                               int64_t threads, ArrayRef<Value> slots,
                               CombineOne combine) {
  OpBuilder &b = f.builder;
  SmallVector<Value> totals(values);
  for (auto [i, total] : llvm::enumerate(totals))
    for (int64_t offset = warpSize / 2; offset; offset /= 2)
      total = combine(i, total, exchange(f, total, offset));
  if (threads <= warpSize || totals.empty())
    return totals;
  Value thread = f.threadId();
  Value isFirst =
      f.compare(arith::CmpIPredicate::eq, f.rem(thread, warpSize), 0);
  auto write = b.create<scf::IfOp>(f.loc, isFirst);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(write.thenBlock());
    for (auto [total, own] : llvm::zip(totals, slots))
      b.create<memref::StoreOp>(f.loc, total, own,
                                ValueRange(f.div(thread, warpSize)));
  }
  b.create<mlir::gpu::BarrierOp>(f.loc);
  for (auto [i, total] : llvm::enumerate(totals))
    for (int64_t warp = 0; warp < threads / warpSize; ++warp) {
      Value part = b.create<memref::LoadOp>(f.loc, slots[i],
                                            ValueRange(f.constant(warp)));
      total = warp ? combine(i, total, part) : part;
    }
  return totals;
}

Value acrossBlock(KernelFrame &f, Value value, int64_t threads, Value slots,
                  Combine combine) {
  return acrossBlock(f, ValueRange(value), threads, ArrayRef(slots),
                     [&](size_t, Value a, Value b) { return combine(a, b); })
      .front();
}

Value combineElements(KernelFrame &f, const codegen::RowReduction &reduction,
                      Value terms) {
  auto type = dyn_cast<VectorType>(terms.getType());
  if (!type)
    return terms;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    parts.push_back(f.builder.create<vector::ExtractOp>(f.loc, terms, i));
  for (size_t half = parts.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      parts[i] = codegen::combine(f.builder, f.loc, reduction, parts[i],
                                  parts[i + half]);
  return parts.front();
}

RowProducts::RowProducts(ValueRange results, size_t rank) {
  for (Operation *op : codegen::producingGenerics(results)) {
    auto generic = cast<linalg::GenericOp>(op);
    Operation *last =
        generic.getBody()->getTerminator()->getOperand(0).getDefiningOp();
    if (generic.getNumReductionLoops() || generic->getNumResults() != 1 ||
        !isa_and_nonnull<arith::MulFOp>(last) ||
        static_cast<size_t>(nn::tensorOf(generic.getResult(0)).getRank()) !=
            rank ||
        !last->getResult(0).getType().isF32())
      continue;
    RowProduct product = {generic.getResult(0), {}};
    for (Operation *needed : codegen::producingGenerics(product.value))
      if (cast<linalg::GenericOp>(needed).getNumReductionLoops())
        product.open.insert(needed);
    if (!product.open.empty())
      products.push_back(std::move(product));
  }
}

LogicalResult RowProducts::bind(KernelFrame &f,
                                ArrayRef<codegen::RowReduction> reductions,
                                ArrayRef<SmallVector<Value>> rows) {
  for (RowProduct &product : products) {
    if (product.open.empty())
      continue;
    for (const codegen::RowReduction &reduction : reductions)
      product.open.erase(reduction.op);
    if (!product.open.empty())
      continue;
    SmallVector<std::pair<SmallVector<Value>, Value>> known;
    for (const SmallVector<Value> &row : rows) {
      // Outside of the scope, nothing knows the product.
      ElementEmitter::Scope scope(f.emitter);
      FailureOr<Value> value = f.emitter.element(product.value, row);
      if (failed(value))
        return failure();
      // All lanes have the same value. What a lane gets from another one is no
      // product.
      Value shuffled =
          f.builder
              .create<mlir::gpu::ShuffleOp>(f.loc, *value, 0, warpSize,
                                            mlir::gpu::ShuffleMode::IDX)
              .getShuffleResult();
      known.emplace_back(row, shuffled);
    }
    f.emitter.bind(product.value, [known](ElementEmitter::Indices at) -> Value {
      for (const auto &[row, value] : known)
        if (at == ArrayRef<Value>(row))
          return value;
      return {};
    });
  }
  return success();
}

Value addFloats(KernelFrame &f, Value a, Value b) {
  return f.builder.create<arith::AddFOp>(f.loc, a, b);
}

WalkSpan spanOf(KernelFrame &f, Value begin, Value end, bool isWhole,
                const Walk &walk) {
  Value first = walk.head ? f.add(begin, walk.head) : begin;
  if (isWhole)
    return {first, end};
  Value count = f.builder.create<arith::SubIOp>(f.loc, end, first);
  return {first, f.add(first, f.mul(f.div(count, walk.width), walk.width))};
}

Value restOf(KernelFrame &f, Value begin, const WalkSpan &span,
             const Walk &walk) {
  OpBuilder &b = f.builder;
  Value thread = f.threadId();
  Value at = f.add(span.wholeEnd, thread);
  if (!walk.head)
    return at;
  // A whole chunk is the elements of one aligned access of full width. Elements
  // in no whole chunk are handled one by one. The first threads handle the
  // elements before the first chunk (the head), and the threads after them
  // handle the elements after the last chunk.
  Value isHead = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult,
                                         thread, walk.head);
  Value inRest = b.create<arith::SubIOp>(f.loc, at, walk.head);
  return b.create<arith::SelectOp>(f.loc, isHead, f.add(begin, thread), inRest);
}

FailureOr<SmallVector<Value>> forChunks(KernelFrame &f, Value begin, Value end,
                                        bool isWhole, const Walk &walk,
                                        ValueRange inits, ChunkBody body) {
  OpBuilder &b = f.builder;
  auto run = [&](Chunk chunk, ValueRange carried) -> LogicalResult {
    ElementEmitter::Scope scope(f.emitter, chunk);
    FailureOr<SmallVector<Value>> next = body(chunk, carried);
    if (failed(next))
      return failure();
    // If the scf.for carries no values, its builder has already given the body
    // a terminator.
    if (!next->empty())
      b.create<scf::YieldOp>(f.loc, *next);
    return success();
  };
  WalkSpan span = spanOf(f, begin, end, isWhole, walk);
  auto loop = b.create<scf::ForOp>(
      f.loc, f.add(span.first, f.mul(f.threadId(), walk.width)), span.wholeEnd,
      f.constant(walk.threads * walk.width), inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Chunk chunk = f.chunk(loop.getInductionVar(), walk.width);
    chunk.row.assign(walk.row.begin(), walk.row.end());
    chunk.shape = walk.shape;
    if (failed(run(chunk, loop.getRegionIterArgs())))
      return failure();
  }
  if (isWhole)
    return SmallVector<Value>(loop.getResults());
  Value at = restOf(f, begin, span, walk);
  auto rest = b.create<scf::IfOp>(
      f.loc, inits.getTypes(),
      b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, at, end),
      /*withElseRegion=*/!inits.empty());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rest.thenBlock());
  if (failed(run(f.chunk(at, 1), loop.getResults())))
    return failure();
  if (inits.empty())
    return SmallVector<Value>();
  b.setInsertionPointToStart(rest.elseBlock());
  b.create<scf::YieldOp>(f.loc, loop.getResults());
  return SmallVector<Value>(rest.getResults());
}

FailureOr<SmallVector<Value>> sumSquares(KernelFrame &f, Value input,
                                         const Chunk &chunk, Value running) {
  OpBuilder &b = f.builder;
  for (Value at : chunk.columns) {
    FailureOr<Value> x = f.emitter.element(input, at);
    if (failed(x))
      return failure();
    Value wide = b.create<arith::ExtFOp>(f.loc, b.getF64Type(), *x);
    running = addFloats(f, running, b.create<arith::MulFOp>(f.loc, wide, wide));
  }
  return SmallVector<Value>{running};
}

LogicalResult storeSums(KernelFrame &f, ArrayRef<linalg::GenericOp> reductions,
                        ArrayRef<Value> sums, ArrayRef<Value> at,
                        ArrayRef<unsigned> results) {
  for (auto [op, sum] : llvm::zip(reductions, sums)) {
    linalg::GenericOp reduction = op;
    FailureOr<Value> initial =
        f.emitter.element(reduction.getDpsInits()[0], at);
    if (failed(initial))
      return failure();
    Value total = addFloats(f, *initial, sum);
    f.emitter.bind(reduction.getResult(0),
                   [total](ElementEmitter::Indices) { return total; });
  }
  // All results are computed before any is stored, since a result may overwrite
  // an argument that another result needs.
  SmallVector<Value> values;
  for (unsigned result : results) {
    FailureOr<Value> value = f.emitter.element(f.yielded(result), at);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [result, value] : llvm::zip(results, values))
    f.store(value, f.outputBuffer(result), at);
  return success();
}

} // namespace heddle::gpu
