//===- RowMemory.cpp - What a block keeps of a row ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lays out the rows that are kept in workgroup memory, and emits their loads
// and stores.
//
//===----------------------------------------------------------------------===//

#include "RowMemory.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

/// The number of elements for which a row has space in workgroup memory: the
/// `extent` columns, rounded up to whole chunks (groups of `walk.width`
/// columns), and one element more for each thread. This additional element is
/// for a column outside of whole chunks. A thread handles at most one of these.
static int64_t elementsOf(const Walk &walk, int64_t extent) {
  return llvm::alignTo(extent, walk.width) + walk.threads;
}

static int64_t bytesOf(const Walk &walk, int64_t extent, Value tensor) {
  int64_t bytes = elementsOf(walk, extent) *
                  dist::byteSize(getElementTypeOrSelf(tensor.getType()));
  return llvm::alignTo(bytes, accessBytes);
}

int64_t RowMemory::bytesOf(const Walk &walk, int64_t extent,
                           ArrayRef<Value> tensors) {
  int64_t bytes = 0;
  for (Value tensor : tensors)
    bytes += gpu::bytesOf(walk, extent, tensor);
  return bytes;
}

RowMemory::RowMemory(KernelFrame &f, const Walk &walk, int64_t extent,
                     ArrayRef<Value> tensors)
    : f(f), extent(extent) {
  OpBuilder &b = f.builder;
  auto space = mlir::gpu::AddressSpaceAttr::get(
      b.getContext(), mlir::gpu::AddressSpace::Workgroup);
  auto memoryOf = [&](int64_t size, Type element) {
    return MemRefType::get({size}, element, MemRefLayoutAttrInterface(), space);
  };
  Value all = b.create<mlir::gpu::DynamicSharedMemoryOp>(
      f.loc, memoryOf(ShapedType::kDynamic, b.getI8Type()));
  int64_t offset = 0;
  for (Value tensor : tensors) {
    rows[tensor] = b.create<memref::ViewOp>(
        f.loc,
        memoryOf(elementsOf(walk, extent),
                 getElementTypeOrSelf(tensor.getType())),
        all, f.constant(offset), ValueRange());
    offset += gpu::bytesOf(walk, extent, tensor);
  }
}

/// Returns the index in workgroup memory of the chunk's first element.
Value RowMemory::placeOf(const Walk &walk, const Chunk &chunk) {
  if (chunk.width() < walk.width)
    return f.add(f.threadId(), llvm::alignTo(extent, walk.width));
  if (!walk.head)
    return chunk.base;
  return f.builder.create<arith::SubIOp>(f.loc, chunk.base, walk.head);
}

void RowMemory::beginRow() {
  written.clear();
  known.clear();
}

LogicalResult RowMemory::fetch(const Walk &walk, const Chunk &chunk,
                               ArrayRef<Value> leading) {
  for (auto [tensor, memory] : rows) {
    if (known.contains(tensor)) {
      f.emitter.define(tensor, leading, get(tensor, walk, chunk));
    } else if (isa<BlockArgument>(tensor)) {
      FailureOr<Value> elements = f.emitter.elements(tensor, leading);
      if (failed(elements))
        return failure();
      put(tensor, walk, chunk, *elements);
    }
  }
  return success();
}

void RowMemory::put(Value tensor, const Walk &walk, const Chunk &chunk,
                    Value elements) {
  Value memory = rows.lookup(tensor);
  if (!memory)
    return;
  f.store(elements, memory, placeOf(walk, chunk));
  written.insert(tensor);
}

Value RowMemory::get(Value tensor, const Walk &walk, const Chunk &chunk) {
  Value memory = rows.lookup(tensor), place = placeOf(walk, chunk);
  if (chunk.width() == 1)
    return f.builder.create<memref::LoadOp>(f.loc, memory, ValueRange(place));
  auto type =
      VectorType::get({chunk.width()}, getElementTypeOrSelf(tensor.getType()));
  return f.builder.create<vector::LoadOp>(f.loc, type, memory, place);
}

} // namespace heddle::gpu
