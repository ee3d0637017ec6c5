//===- LoopBuilder.cpp - Builds loops over raw memory ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/LoopBuilder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace heddle::cpu {

Value LoopBuilder::constant(int64_t value) {
  return create<arith::ConstantOp>(builder.getI64IntegerAttr(value));
}
Value LoopBuilder::add(Value a, Value b) { return create<arith::AddIOp>(a, b); }
Value LoopBuilder::add(Value a, int64_t b) {
  return b ? add(a, constant(b)) : a;
}
Value LoopBuilder::sub(Value a, Value b) { return create<arith::SubIOp>(a, b); }
Value LoopBuilder::mul(Value a, int64_t b) { return mul(a, constant(b)); }
Value LoopBuilder::mul(Value a, Value b) { return create<arith::MulIOp>(a, b); }
Value LoopBuilder::div(Value a, Value b) {
  return create<arith::DivUIOp>(a, b);
}
Value LoopBuilder::div(Value a, int64_t b) { return div(a, constant(b)); }
Value LoopBuilder::rem(Value a, int64_t b) {
  return create<arith::RemUIOp>(a, constant(b));
}
Value LoopBuilder::ceilDiv(Value a, int64_t b) { return div(add(a, b - 1), b); }
Value LoopBuilder::min(Value a, Value b) {
  return create<arith::MinSIOp>(a, b);
}
Value LoopBuilder::less(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}
Value LoopBuilder::equal(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
}
Value LoopBuilder::select(Value condition, Value a, Value b) {
  return create<arith::SelectOp>(condition, a, b);
}

Value LoopBuilder::toI64(Value value) {
  if (!value.getType().isIndex())
    return value;
  return create<arith::IndexCastOp>(builder.getI64Type(), value);
}
Value LoopBuilder::toIndex(Value value) {
  return create<arith::IndexCastOp>(builder.getIndexType(), value);
}

Value LoopBuilder::advance(Value pointer, Type type, Value index) {
  return create<LLVM::GEPOp>(pointer.getType(), type, pointer,
                             ArrayRef<LLVM::GEPArg>(index));
}
Value LoopBuilder::advance(Value pointer, Type type, int64_t index) {
  if (index == 0)
    return pointer;
  LLVM::GEPArg constant(static_cast<int32_t>(index));
  return create<LLVM::GEPOp>(pointer.getType(), type, pointer,
                             ArrayRef<LLVM::GEPArg>(constant));
}

/// With bf16, LLVM would split a masked vector access into one access for each
/// element. It would also emit function calls for bf16 values that live across
/// basic blocks, and for selects.
Type LoopBuilder::accessType(Type type) {
  if (!getElementTypeOrSelf(type).isBF16())
    return type;
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(builder.getI16Type()))
                : builder.getI16Type();
}

Value LoopBuilder::load(Type type, Value pointer, unsigned alignment,
                        Value mask) {
  Type access = accessType(type);
  Value loaded = mask ? create<LLVM::MaskedLoadOp>(
                            access, pointer, mask,
                            zeros(cast<VectorType>(access)), alignment)
                      : create<LLVM::LoadOp>(access, pointer, alignment);
  return access == type ? loaded : create<LLVM::BitcastOp>(type, loaded);
}

void LoopBuilder::store(Value value, Value pointer, unsigned alignment,
                        Value mask) {
  if (!mask) {
    builder.create<LLVM::StoreOp>(loc, value, pointer, alignment);
    return;
  }
  Type access = accessType(value.getType());
  if (access != value.getType())
    value = create<LLVM::BitcastOp>(access, value);
  builder.create<LLVM::MaskedStoreOp>(loc, value, pointer, mask, alignment);
}

void LoopBuilder::prefetch(Value pointer) {
  constexpr unsigned read = 0, secondLevel = 2, data = 1;
  builder.create<LLVM::Prefetch>(loc, pointer, read, secondLevel, data);
}

Value LoopBuilder::mask(Value count, int64_t lanes) {
  return create<vector::CreateMaskOp>(
      VectorType::get(lanes, builder.getI1Type()), toIndex(count));
}

Value LoopBuilder::shuffle(Value a, Value b, ArrayRef<int64_t> lanes) {
  return create<vector::ShuffleOp>(a, b, lanes);
}

Value LoopBuilder::interleave(Value x, Value y) {
  int64_t lanes = cast<VectorType>(x.getType()).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < lanes; ++lane)
    order.append({lane, lane + lanes});
  return shuffle(x, y, order);
}

Value LoopBuilder::both(Value mask, Value condition, int64_t lanes) {
  Value all = create<vector::BroadcastOp>(
      VectorType::get(lanes, builder.getI1Type()), condition);
  return mask ? create<arith::AndIOp>(mask, all) : all;
}

Value LoopBuilder::zeros(VectorType type) {
  return create<arith::ConstantOp>(builder.getZeroAttr(type));
}

/// The type of `value` with the element type `element`.
static Type withElement(Value value, Type element) {
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    return vector.clone(element);
  return element;
}

Value LoopBuilder::widen(Value value) {
  Type wide = withElement(value, builder.getF32Type());
  return value.getType() == wide ? value : create<arith::ExtFOp>(wide, value);
}

Value LoopBuilder::narrow(Value value, Type element) {
  if (element.isF32())
    return value;
  return create<arith::TruncFOp>(withElement(value, element), value);
}

void LoopBuilder::forLoop(Value begin, Value end, int64_t step, LoopBody body) {
  forLoop(begin, end, step, {}, [&](Value index, ValueRange) -> Values {
    body(index);
    return {};
  });
}

LoopBuilder::Values LoopBuilder::forLoop(Value begin, Value end, int64_t step,
                                         ValueRange init, CarriedBody body) {
  // Create the loop before its body, because `body` may look at operations
  // around the insertion point.
  auto loop = builder.create<scf::ForOp>(loc, begin, end, constant(step), init);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    builder.create<scf::YieldOp>(loc, next);
  return Values(loop.getResults());
}

void LoopBuilder::ifThen(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  auto branch =
      builder.create<scf::IfOp>(loc, condition, /*withElse=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  then();
  if (otherwise) {
    builder.setInsertionPointToStart(branch.elseBlock());
    otherwise();
  }
}

Value LoopBuilder::pointerTo(Value value) {
  auto type = dyn_cast<MemRefType>(value.getType());
  if (!type)
    return value;
  auto metadata = builder.create<memref::ExtractStridedMetadataOp>(loc, value);
  Value address = toI64(
      create<memref::ExtractAlignedPointerAsIndexOp>(metadata.getBaseBuffer()));
  Value pointer = create<LLVM::IntToPtrOp>(
      LLVM::LLVMPointerType::get(builder.getContext()), address);
  return advance(pointer, type.getElementType(), toI64(metadata.getOffset()));
}

} // namespace heddle::cpu
