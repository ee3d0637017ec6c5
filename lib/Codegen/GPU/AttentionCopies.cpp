//===- AttentionCopies.cpp - Attention's copies to workgroup memory -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies tiles of rows from global to workgroup memory by cp.async.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// A thread's accesses in the copy of a tile are unrolled if there are at most
/// this many. If there are more, a loop emits them, which keeps the code short.
static constexpr int64_t maxUnrolled = 8;
/// The fewest bytes that cp.async copies.
static constexpr int64_t leastAsync = 4;

/// Returns the number of elements that one access copies: as many as the widest
/// access holds, halved until they divide the features of a head.
static int64_t accessWidth(const codegen::AttentionSpec &spec) {
  int64_t width = accessBytes / dist::byteSize(spec.elementType);
  while (spec.headDim % width)
    width /= 2;
  return width;
}

void AttentionMapper::copyRows(const SharedRows &to, int64_t count,
                               const HeadRows &from, Value feature) {
  int64_t length = count / from.rows.count();
  for (auto [range, first] : llvm::enumerate(from.rows.firsts))
    copyRange({to.memory, i32.add(to.firstRow, range * length)}, length,
              {from.heads, from.head, first, from.limit}, feature);
}

void AttentionMapper::copyRange(const SharedRows &to, int64_t count,
                                const HeadRows &from, Value feature) {
  int64_t width = accessWidth(spec), threads = warps * warpSize;
  int64_t accesses = count * tiles->width() / width;
  if (spec.block && copyInSteps(to, count, from, feature, width))
    return;
  auto copy = [&](Value access, bool isWhole) {
    auto emit = [&] { copyAccess(to, from, feature, access, width); };
    if (isWhole)
      emit();
    else
      ifThen(i32.less(access, accesses), emit);
  };
  if (accesses <= maxUnrolled * threads) {
    for (int64_t base = 0; base < accesses; base += threads)
      copy(i32.add(thread, base), base + threads <= accesses);
    return;
  }
  f.builder.create<scf::ForOp>(
      f.loc, i32.constant(0), i32.constant(accesses), i32.constant(threads),
      ValueRange(), [&](OpBuilder &b, Location loc, Value base, ValueRange) {
        copy(i32.add(thread, base), accesses % threads == 0);
        b.create<scf::YieldOp>(loc);
      });
}

static Value unsignedLess(KernelFrame &f, Value a, Value b) {
  return f.builder.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult, a,
                                         b);
}

/// Emits one access in the copy of rows to workgroup memory. The access with
/// the index `access` copies `width` elements of a row.
void AttentionMapper::copyAccess(const SharedRows &to, const HeadRows &from,
                                 Value feature, Value access, int64_t width) {
  OpBuilder &b = f.builder;
  int64_t perRow = tiles->width() / width;
  Value inTile = i32.div(access, perRow);
  Value column = i32.mul(i32.rem(access, perRow), width);
  Value row = i32.add(from.rows.firsts.front(), inTile);
  Value target[] = {i32.toIndex(i32.add(to.firstRow, inTile)),
                    i32.toIndex(column)};
  column = i32.add(column, feature);
  Value isIn = unsignedLess(f, row, from.limit);
  if (tiles->width() != spec.headDim)
    isIn = b.create<arith::AndIOp>(f.loc, isIn, i32.less(column, spec.headDim));
  if (width * dist::byteSize(spec.elementType) < leastAsync) {
    Value zero = i32.constant(0);
    Value source = indexOf(from.heads, from.head, i32.select(isIn, row, zero),
                           i32.select(isIn, column, zero));
    Value element = loadNumber(from.heads.memory, source);
    Value nothing =
        b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(spec.elementType));
    element = b.create<arith::SelectOp>(f.loc, isIn, element, nothing);
    b.create<memref::StoreOp>(f.loc, element, to.memory, target);
    return;
  }
  Value count =
      b.create<arith::SelectOp>(f.loc, isIn, f.constant(width), f.constant(0));
  Value source = indexOf(from.heads, from.head, row, column);
  copyElements(to.memory, target, from.heads.memory, source, width, count);
}

/// Copies `width` elements if `count` is `width`, or writes zeros if it is 0.
/// The copy then does not access the source address, which may be outside of
/// the tensor.
void AttentionMapper::copyElements(Value to, ValueRange target, Value from,
                                   Value source, int64_t width, Value count) {
  OpBuilder &b = f.builder;
  bool isWide = width * dist::byteSize(spec.elementType) == accessBytes;
  b.create<nvgpu::DeviceAsyncCopyOp>(
      f.loc, nvgpu::DeviceAsyncTokenType::get(b.getContext()), to, target, from,
      source, b.getIndexAttr(width), count,
      isWide ? b.getUnitAttr() : UnitAttr());
}

/// Copies rows like `copyRange`, if all threads together copy a whole number of
/// rows at a time, and several times that number are `count`. All addresses of
/// a thread then have constant distances, so that a thread computes only one of
/// them. This is worth it for the short ranges of layouts, of which a thread
/// copies several. Returns whether the copy was emitted.
bool AttentionMapper::copyInSteps(const SharedRows &to, int64_t count,
                                  const HeadRows &from, Value feature,
                                  int64_t width) {
  OpBuilder &b = f.builder;
  int64_t perRow = tiles->width() / width, threads = warps * warpSize;
  int64_t step = threads / perRow;
  if (threads % perRow || count % step || count / step > 2 * maxUnrolled ||
      width * dist::byteSize(spec.elementType) < leastAsync)
    return false;
  codegen::IntBuilder index(b, f.loc, b.getIndexType());
  Value inTile = i32.div(thread, perRow), first = from.rows.firsts.front();
  Value column = i32.mul(i32.rem(thread, perRow), width);
  Value target = i32.toIndex(i32.add(to.firstRow, inTile));
  Value targetColumn = i32.toIndex(column);
  column = i32.add(column, feature);
  // The end of the rows that exist, counted from the thread's first row on.
  Value end = i32.sub(from.limit, inTile);
  if (tiles->width() != spec.headDim)
    end = i32.select(i32.less(column, spec.headDim), end, i32.constant(0));
  // What depends on `first` is added last, since the rest is the same for all
  // ranges and tiles. The offset of the heads is a distance, so that keys and
  // values have one pointer.
  Value position = i32.add(i32.mul(batch, spec.seq), inTile);
  Value inRow = i32.add(i32.mul(from.head, spec.headDim), column);
  Value own =
      wide.add(wide.mul(wide.from(position), from.heads.row), wide.from(inRow));
  Value source =
      wide.toIndex(wide.add(wide.mul(wide.from(first), from.heads.row), own));
  // With a pointer to the first element, distances are immediate operands.
  auto type = cast<MemRefType>(from.heads.memory.getType());
  type = MemRefType::get(
      {ShapedType::kDynamic}, type.getElementType(),
      StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, {1}),
      type.getMemorySpace());
  Value memory = b.create<memref::ReinterpretCastOp>(
      f.loc, type, from.heads.memory, OpFoldResult(source),
      ArrayRef<OpFoldResult>(OpFoldResult(f.constant(1))),
      ArrayRef<OpFoldResult>(OpFoldResult(b.getIndexAttr(1))));
  for (int64_t row = 0; row < count; row += step) {
    Value isIn = i32.less(i32.add(first, row), end);
    Value elements = index.select(isIn, f.constant(width), f.constant(0));
    copyElements(to.memory, {index.add(target, row), targetColumn}, memory,
                 f.constant(row * from.heads.row + from.heads.offset), width,
                 elements);
  }
  return true;
}

void AttentionMapper::copyNumbers(Value to, Value at, Value from, Value head,
                                  const RowRanges &queries) {
  int64_t length = columns / queries.count();
  for (auto [range, first] : llvm::enumerate(queries.firsts))
    copyNumbers(to, i32.add(at, range * length), length, from, head, first);
}

void AttentionMapper::copyNumbers(Value to, Value at, int64_t count, Value from,
                                  Value head, Value first) {
  OpBuilder &b = f.builder;
  int64_t threads = warps * warpSize;
  for (int64_t base = 0; base < count; base += threads) {
    Value number = i32.add(thread, base);
    auto copy = [&] {
      Value query = i32.add(first, number);
      Value isIn = unsignedLess(f, query, i32.constant(spec.seq));
      Value source = numberIndex(head, query);
      Value size =
          b.create<arith::SelectOp>(f.loc, isIn, f.constant(1), f.constant(0));
      b.create<nvgpu::DeviceAsyncCopyOp>(
          f.loc, nvgpu::DeviceAsyncTokenType::get(b.getContext()), to,
          i32.toIndex(i32.add(at, number)), from, source, b.getIndexAttr(1),
          size, UnitAttr());
    };
    if (base + threads <= count)
      copy();
    else
      ifThen(i32.less(number, count), copy);
  }
}

void AttentionMapper::commitCopies() {
  f.builder.create<nvgpu::DeviceAsyncCreateGroupOp>(
      f.loc, nvgpu::DeviceAsyncTokenType::get(f.builder.getContext()),
      ValueRange());
}

void AttentionMapper::waitForCopies(int64_t pending) {
  f.builder.create<LLVM::CallIntrinsicOp>(
      f.loc, TypeRange(),
      f.builder.getStringAttr("llvm.nvvm.cp.async.wait.group"),
      ValueRange{i32.constant(pending)});
  f.builder.create<mlir::gpu::BarrierOp>(f.loc);
}

} // namespace heddle::gpu
