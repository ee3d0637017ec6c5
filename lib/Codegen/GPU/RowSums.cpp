//===- RowSums.cpp - Sums over the rows that blocks have ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits sums over rows inside of a row-wise kernel. A thread has f32 sums of at
// most eight adjacent columns, but one access (16 bytes) stores only four of
// them. A block's partial sums are therefore laid out in strips, so that a warp
// accesses consecutive bytes. The first strip holds the first four columns of
// every thread, the second strip the other four. If the warps of a block (its
// teams) sum different rows, their sums are first added in workgroup memory.
//
//===----------------------------------------------------------------------===//

#include "RowSums.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

/// The number of f32 elements that one access holds.
static constexpr int64_t stripWidth = accessBytes / sizeof(float);

int64_t RowSums::strips() const {
  return teams > 1 ? 1 : std::max<int64_t>(width / stripWidth, 1);
}

/// Returns the column whose sum is the element at index `place` of a block's
/// partial sums.
Value RowSums::columnAt(KernelFrame &f, Value place) const {
  if (strips() == 1)
    return place;
  Value inStrip = f.rem(place, stripSize());
  Value chunk = f.mul(f.div(inStrip, stripWidth), width);
  Value strip = f.mul(f.div(place, stripSize()), stripWidth);
  return f.add(f.add(chunk, strip), f.rem(inStrip, stripWidth));
}

SmallVector<Value> RowSums::zeros(KernelFrame &f, int64_t threads) const {
  Type type = f.builder.getF32Type();
  if (width > 1)
    type = VectorType::get({width}, type);
  Value zero =
      f.builder.create<arith::ConstantOp>(f.loc, f.builder.getZeroAttr(type));
  int64_t chunks = RowChunks::countOf({width, threads}, parts.columns);
  return SmallVector<Value>(chunks * parts.sums, zero);
}

FailureOr<SmallVector<Value>> RowSums::add(KernelFrame &f, RowChunks &chunks,
                                           ArrayRef<Value> leading,
                                           ValueRange running) const {
  ArrayRef<codegen::RowReduction> sums = form.columnSums().reductions;
  for (const codegen::RowReduction &sum : sums)
    f.emitter.hoistTerms(sum.op, leading);
  // The index of the loop-carried sum to which terms are added next. These sums
  // are in the order of the thread's chunks, and for each chunk in the order of
  // the kernel's reductions. The code below visits them in this order, so that
  // `next` only counts up.
  size_t next = 0;
  return chunks.walk(
      running, {},
      [&](const Chunk &, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> result(carried);
        for (const codegen::RowReduction &sum : sums) {
          FailureOr<Value> terms = f.emitter.terms(sum.op, leading);
          if (failed(terms))
            return failure();
          result[next] = addFloats(f, result[next], *terms);
          ++next;
        }
        return result;
      });
}

LogicalResult RowSums::storeOfTeams(KernelFrame &f, ValueRange sums) const {
  OpBuilder &b = f.builder;
  Value part = f.blockId(mlir::gpu::Dimension::x);
  ColumnTile tile(parts.columns, width);
  Value memory = columnMemory(f, tile, parts.sums);
  SmallVector<Value> own;
  for (Value sum : sums)
    for (int64_t i = 0; i < width; ++i)
      own.push_back(width == 1 ? sum
                               : b.create<vector::ExtractOp>(f.loc, sum, i));
  size_t perChunk = parts.sums * width;
  for (size_t first = 0; first < own.size(); first += perChunk) {
    if (first > 0) // Other threads have read the chunk before.
      b.create<mlir::gpu::BarrierOp>(f.loc);
    auto store = [&](Value column, ArrayRef<Value> totals) {
      for (auto [sum, total] : llvm::enumerate(totals))
        f.store(total, parts.of(f, sum, parts.columns), {part, column});
      return success();
    };
    Value place = f.constant(first / perChunk);
    if (failed(addColumnSums(f, tile, place,
                             ArrayRef(own).slice(first, perChunk), memory,
                             store)))
      return failure();
  }
  return success();
}

LogicalResult RowSums::store(KernelFrame &f, RowChunks &chunks,
                             ValueRange sums) const {
  if (teams > 1)
    return storeOfTeams(f, sums);
  OpBuilder &b = f.builder;
  Value block = f.blockId(mlir::gpu::Dimension::x);
  SmallVector<Value> memory;
  for (int64_t sum = 0; sum < parts.sums; ++sum)
    memory.push_back(parts.of(f, sum, {strips(), stripSize()}));
  size_t next = 0;
  return chunks.walk({}, {}, [&](const Chunk &chunk, ValueRange) {
    int64_t size = std::min(width, stripWidth);
    Value inStrip = f.mul(f.div(chunk.base, width), size);
    for (Value own : memory) {
      Value sum = sums[next++];
      for (int64_t strip = 0; strip < strips(); ++strip) {
        Value part = sum;
        if (strips() > 1)
          part = b.create<vector::ExtractStridedSliceOp>(f.loc, sum,
                                                         strip * size, size, 1);
        f.store(part, own, {block, f.constant(strip), inStrip});
      }
    }
    return FailureOr<SmallVector<Value>>(SmallVector<Value>());
  });
}

LogicalResult RowSums::addLaunch(MappedKernel &mapped, planir::KernelOp kernel,
                                 mlir::gpu::GPUModuleOp module) const {
  SmallVector<linalg::GenericOp> reductions;
  for (const codegen::RowReduction &sum : form.columnSums().reductions)
    reductions.push_back(sum.op);
  SmallVector<unsigned> results;
  for (unsigned i = 0; i < form.numResults(); ++i)
    if (form.isColumnResult(i))
      results.push_back(i);
  return addSumOfParts(mapped, kernel, module, parts,
                       [&](KernelFrame &f, Value place, ArrayRef<Value> sums) {
                         return storeSums(f, reductions, sums,
                                          columnAt(f, place), results);
                       });
}

} // namespace heddle::gpu
