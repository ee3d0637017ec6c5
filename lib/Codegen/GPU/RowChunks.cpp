//===- RowChunks.cpp - What a thread keeps of a row -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits code for the chunks of adjacent columns that a thread handles in a row,
// one chunk after the other. The chunks' elements stay in registers for later
// passes over the row.
//
//===----------------------------------------------------------------------===//

#include "RowChunks.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

RowChunks::RowChunks(KernelFrame &f, const Walk &walk, int64_t extent) : f(f) {
  OpBuilder &b = f.builder;
  auto isBelow = [&](Value at, Value end) -> Value {
    return b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, at, end);
  };
  Value end = f.constant(extent);
  bool isWhole = !walk.head && extent % walk.width == 0;
  WalkSpan span = spanOf(f, f.constant(0), end, isWhole, walk);
  int64_t step = walk.threads * walk.width;
  // The largest number of columns outside of whole chunks (aligned groups of
  // `walk.width` columns). At either end of the row there are fewer such
  // columns than the width of a chunk.
  int64_t missing = isWhole ? 0 : 2 * (walk.width - 1);
  Value begin = f.add(span.first, f.mul(f.threadId(), walk.width));
  for (int64_t i = 0, count = countOf(walk, extent); i < count; ++i) {
    ThreadChunk mine;
    mine.chunk = f.chunk(f.add(begin, i * step), walk.width);
    mine.chunk.row.assign(walk.row.begin(), walk.row.end());
    mine.chunk.shape = walk.shape;
    if ((i + 1) * step > extent - missing)
      mine.exists = isBelow(mine.chunk.base, span.wholeEnd);
    chunks.push_back(std::move(mine));
  }
  if (isWhole)
    return;
  Value at = restOf(f, f.constant(0), span, walk);
  chunks.push_back({f.chunk(at, 1), isBelow(at, end), {}});
}

FailureOr<SmallVector<Value>> RowChunks::emit(ThreadChunk &mine,
                                              ValueRange carried,
                                              ArrayRef<KeptTensor> kept,
                                              ChunkBody body) {
  ElementEmitter::Scope scope(f.emitter, mine.chunk);
  for (const KeptElements &known : mine.known)
    f.emitter.define(known.kept.tensor, known.kept.leading, known.elements);
  FailureOr<SmallVector<Value>> next = body(mine.chunk, carried);
  if (failed(next))
    return failure();
  for (const KeptTensor &one : kept) {
    FailureOr<Value> elements = f.emitter.elements(one.tensor, one.leading);
    if (failed(elements))
      return failure();
    next->push_back(*elements);
  }
  return next;
}

FailureOr<SmallVector<Value>> RowChunks::emitIfExists(ThreadChunk &mine,
                                                      ValueRange carried,
                                                      ArrayRef<KeptTensor> kept,
                                                      ChunkBody body) {
  OpBuilder &b = f.builder;
  SmallVector<Type> types(carried.getTypes());
  SmallVector<Value> otherwise(carried);
  OpBuilder::InsertionGuard guard(b);
  for (const KeptTensor &one : kept) {
    Type type = getElementTypeOrSelf(one.tensor);
    if (mine.chunk.width() > 1)
      type = VectorType::get({mine.chunk.width()}, type);
    types.push_back(type);
  }
  auto branch = b.create<scf::IfOp>(f.loc, types, mine.exists,
                                    /*withElseRegion=*/!types.empty());
  b.setInsertionPointToStart(branch.thenBlock());
  FailureOr<SmallVector<Value>> next = emit(mine, carried, kept, body);
  if (failed(next))
    return failure();
  if (types.empty())
    return SmallVector<Value>();
  b.create<scf::YieldOp>(f.loc, *next);
  b.setInsertionPointToStart(branch.elseBlock());
  for (Type type : ArrayRef(types).drop_front(carried.size()))
    otherwise.push_back(
        b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(type)));
  b.create<scf::YieldOp>(f.loc, otherwise);
  return SmallVector<Value>(branch.getResults());
}

FailureOr<SmallVector<Value>>
RowChunks::walk(ValueRange inits, ArrayRef<KeptTensor> kept, ChunkBody body) {
  SmallVector<Value> carried(inits);
  for (ThreadChunk &mine : chunks) {
    FailureOr<SmallVector<Value>> next =
        mine.exists ? emitIfExists(mine, carried, kept, body)
                    : emit(mine, carried, kept, body);
    if (failed(next))
      return failure();
    ArrayRef<Value> elements = ArrayRef(*next).take_back(kept.size());
    for (auto [one, value] : llvm::zip(kept, elements))
      mine.known.push_back({one, value});
    carried.assign(next->begin(), next->end() - kept.size());
  }
  return carried;
}

LogicalResult RowChunks::load(ArrayRef<KeptTensor> kept) {
  return walk({}, kept, [](const Chunk &, ValueRange) {
    return FailureOr<SmallVector<Value>>(SmallVector<Value>());
  });
}

} // namespace heddle::gpu
