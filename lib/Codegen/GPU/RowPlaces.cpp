//===- RowPlaces.cpp - What a thread keeps of a row -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowPlaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

RowPlaces::RowPlaces(KernelFrame &f, const Walk &walk, int64_t extent) : f(f) {
  OpBuilder &b = f.builder;
  auto isBelow = [&](Value at, Value end) -> Value {
    return b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, at, end);
  };
  Value end = f.constant(extent);
  bool isWhole = !walk.head && extent % walk.width == 0;
  WalkSpan span = spanOf(f, f.constant(0), end, isWhole, walk);
  int64_t step = walk.threads * walk.width;
  // What the head and the columns behind the last chunk may take.
  int64_t missing = isWhole ? 0 : 2 * (walk.width - 1);
  Value begin = f.add(span.first, f.mul(f.threadId(), walk.width));
  for (int64_t i = 0, count = countOf(walk, extent); i < count; ++i) {
    Place place;
    place.chunk = f.chunk(f.add(begin, i * step), walk.width);
    place.chunk.row.assign(walk.row.begin(), walk.row.end());
    place.chunk.shape = walk.shape;
    if ((i + 1) * step > extent - missing)
      place.exists = isBelow(place.chunk.base, span.wholeEnd);
    places.push_back(std::move(place));
  }
  if (isWhole)
    return;
  Value at = restOf(f, f.constant(0), span, walk);
  places.push_back({f.chunk(at, 1), isBelow(at, end), {}});
}

FailureOr<SmallVector<Value>> RowPlaces::emit(Place &place, ValueRange carried,
                                              ArrayRef<Kept> kept,
                                              ChunkBody body) {
  ElementEmitter::Scope scope(f.emitter, place.chunk);
  for (const Known &known : place.known)
    f.emitter.define(known.kept.tensor, known.kept.leading, known.elements);
  FailureOr<SmallVector<Value>> next = body(place.chunk, carried);
  if (failed(next))
    return failure();
  for (const Kept &one : kept) {
    FailureOr<Value> elements = f.emitter.elements(one.tensor, one.leading);
    if (failed(elements))
      return failure();
    next->push_back(*elements);
  }
  return next;
}

FailureOr<SmallVector<Value>> RowPlaces::emitIfExists(Place &place,
                                                      ValueRange carried,
                                                      ArrayRef<Kept> kept,
                                                      ChunkBody body) {
  OpBuilder &b = f.builder;
  SmallVector<Type> types(carried.getTypes());
  SmallVector<Value> otherwise(carried);
  OpBuilder::InsertionGuard guard(b);
  for (const Kept &one : kept) {
    Type type = getElementTypeOrSelf(one.tensor);
    if (place.chunk.width() > 1)
      type = VectorType::get({place.chunk.width()}, type);
    types.push_back(type);
  }
  auto branch = b.create<scf::IfOp>(f.loc, types, place.exists,
                                    /*withElseRegion=*/!types.empty());
  b.setInsertionPointToStart(branch.thenBlock());
  FailureOr<SmallVector<Value>> next = emit(place, carried, kept, body);
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
RowPlaces::walk(ValueRange inits, ArrayRef<Kept> kept, ChunkBody body) {
  SmallVector<Value> carried(inits);
  for (Place &place : places) {
    FailureOr<SmallVector<Value>> next =
        place.exists ? emitIfExists(place, carried, kept, body)
                     : emit(place, carried, kept, body);
    if (failed(next))
      return failure();
    ArrayRef<Value> elements = ArrayRef(*next).take_back(kept.size());
    for (auto [one, value] : llvm::zip(kept, elements))
      place.known.push_back({one, value});
    carried.assign(next->begin(), next->end() - kept.size());
  }
  return carried;
}

LogicalResult RowPlaces::load(ArrayRef<Kept> kept) {
  return walk({}, kept, [](const Chunk &, ValueRange) {
    return FailureOr<SmallVector<Value>>(SmallVector<Value>());
  });
}

} // namespace heddle::gpu
