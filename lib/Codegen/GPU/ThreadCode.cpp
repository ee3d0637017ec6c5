//===- ThreadCode.cpp - The code of one thread, near PTX ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short forms of integer arithmetic, memory accesses, and calls of NVVM
// intrinsics.
//
//===----------------------------------------------------------------------===//

#include "ThreadCode.h"
#include "KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value ThreadCode::constant(int64_t value) {
  return builder.create<arith::ConstantIntOp>(loc, value, 32);
}

Value ThreadCode::zero(Type type) {
  return builder.create<arith::ConstantOp>(loc, builder.getZeroAttr(type));
}

Value ThreadCode::add(Value a, Value b) { return create<arith::AddIOp>(a, b); }

Value ThreadCode::add(Value a, int64_t b) {
  return b ? add(a, constant(b)) : a;
}

Value ThreadCode::sub(Value a, Value b) { return create<arith::SubIOp>(a, b); }

Value ThreadCode::mul(Value a, int64_t b) {
  Value factor = builder.create<arith::ConstantOp>(
      loc, builder.getIntegerAttr(a.getType(), b));
  return create<arith::MulIOp>(a, factor);
}

Value ThreadCode::div(Value a, Value b) { return create<arith::DivUIOp>(a, b); }

Value ThreadCode::div(Value a, int64_t b) { return div(a, constant(b)); }

Value ThreadCode::rem(Value a, Value b) { return create<arith::RemUIOp>(a, b); }

Value ThreadCode::rem(Value a, int64_t b) {
  return b == 1 ? constant(0) : rem(a, constant(b));
}

Value ThreadCode::exclusiveOr(Value a, Value b) {
  return create<arith::XOrIOp>(a, b);
}

Value ThreadCode::less(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}

Value ThreadCode::less(Value a, int64_t b) { return less(a, constant(b)); }

Value ThreadCode::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return create<arith::AndIOp>(a, b);
}

Value ThreadCode::orZero(Value condition, Value value) {
  if (!condition)
    return value;
  return create<arith::SelectOp>(condition, value, zero(value.getType()));
}

Value ThreadCode::wide(Value value) {
  return create<arith::ExtUIOp>(builder.getI64Type(), value);
}

Value ThreadCode::toIndex(Value value) {
  return create<arith::IndexCastUIOp>(builder.getIndexType(), value);
}

Value ThreadCode::toI32(Value index) {
  return create<arith::IndexCastOp>(builder.getI32Type(), index);
}

/// Returns the type of `value`, a scalar or a vector, but with `element` as its
/// element type.
static Type withElement(Value value, Type element) {
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    return vector.clone(element);
  return element;
}

Value ThreadCode::widen(Value value) {
  Type wide = withElement(value, builder.getF32Type());
  return value.getType() == wide ? value : create<arith::ExtFOp>(wide, value);
}

Value ThreadCode::narrow(Value value, Type type) {
  Type narrow = withElement(value, type);
  return value.getType() == narrow ? value
                                   : create<arith::TruncFOp>(narrow, value);
}

SmallVector<Value> ThreadCode::split(Value linear, ArrayRef<int64_t> shape) {
  SmallVector<Value> indices(shape.size());
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    indices[dim] = toIndex(dim ? rem(linear, shape[dim]) : linear);
    if (dim)
      linear = div(linear, shape[dim]);
  }
  return indices;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

Value ThreadCode::threadId() {
  return toI32(
      builder.create<mlir::gpu::ThreadIdOp>(loc, mlir::gpu::Dimension::x));
}

Value ThreadCode::blockId(mlir::gpu::Dimension dimension) {
  return toI32(builder.create<mlir::gpu::BlockIdOp>(loc, dimension));
}

void ThreadCode::barrier() { builder.create<mlir::gpu::BarrierOp>(loc); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the pointer that a memref's lowering uses for its first element.
static Value pointerOf(ThreadCode &c, Value buffer, unsigned space) {
  Value address =
      c.builder.create<memref::ExtractAlignedPointerAsIndexOp>(c.loc, buffer);
  Value bits = c.create<arith::IndexCastOp>(c.builder.getI64Type(), address);
  return c.builder.create<LLVM::IntToPtrOp>(
      c.loc, LLVM::LLVMPointerType::get(c.builder.getContext(), space), bits);
}

Value ThreadCode::globalPointer(Value buffer) {
  auto global = LLVM::LLVMPointerType::get(builder.getContext(),
                                           NVVM::kGlobalMemorySpace);
  return builder.create<LLVM::AddrSpaceCastOp>(loc, global,
                                               pointerOf(*this, buffer, 0));
}

Value ThreadCode::sharedMemory() {
  auto space = mlir::gpu::AddressSpaceAttr::get(
      builder.getContext(), mlir::gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({ShapedType::kDynamic}, builder.getI8Type(),
                              MemRefLayoutAttrInterface(), space);
  Value memory = builder.create<mlir::gpu::DynamicSharedMemoryOp>(loc, type);
  return pointerOf(*this, memory, NVVM::kSharedMemorySpace);
}

Value ThreadCode::at(Value pointer, Value bytes) {
  return builder.create<LLVM::GEPOp>(loc, pointer.getType(),
                                     builder.getI8Type(), pointer, bytes);
}

Value ThreadCode::at(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  if (llvm::isInt<32>(bytes))
    return builder.create<LLVM::GEPOp>(
        loc, pointer.getType(), builder.getI8Type(), pointer,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
  return at(pointer,
            Value(builder.create<arith::ConstantIntOp>(loc, bytes, 64)));
}

Value ThreadCode::flip(Value pointer, int64_t bits) {
  if (bits == 0)
    return pointer;
  Type i64 = builder.getI64Type();
  Value address = builder.create<LLVM::PtrToIntOp>(loc, i64, pointer);
  Value mask = builder.create<arith::ConstantIntOp>(loc, bits, i64);
  return builder.create<LLVM::IntToPtrOp>(loc, pointer.getType(),
                                          exclusiveOr(address, mask));
}

static unsigned alignmentOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  unsigned bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  return bits / 8 * (vector ? vector.getNumElements() : 1);
}

Value ThreadCode::load(Type type, Value pointer) {
  return builder.create<LLVM::LoadOp>(loc, type, pointer, alignmentOf(type));
}

void ThreadCode::store(Value value, Value pointer) {
  builder.create<LLVM::StoreOp>(loc, value, pointer,
                                alignmentOf(value.getType()));
}

Value ThreadCode::loadVector(Type element, int64_t count, Value pointer) {
  return load(VectorType::get({count}, element), pointer);
}

void ThreadCode::storeVector(ArrayRef<Value> values, Value pointer) {
  auto type = VectorType::get({static_cast<int64_t>(values.size())},
                              values[0].getType());
  store(builder.create<vector::FromElementsOp>(loc, type, values), pointer);
}

SmallVector<Value> ThreadCode::elements(Value vector) {
  SmallVector<Value> values;
  for (int64_t i = 0; i < cast<VectorType>(vector.getType()).getNumElements();
       ++i)
    values.push_back(builder.create<vector::ExtractOp>(loc, vector, i));
  return values;
}

//===----------------------------------------------------------------------===//
// PTX instructions
//===----------------------------------------------------------------------===//

Value ThreadCode::call(StringRef intrinsic, Type result, ValueRange operands) {
  SmallVector<Type> results;
  if (result)
    results.push_back(result);
  auto op = builder.create<LLVM::CallIntrinsicOp>(
      loc, results, builder.getStringAttr(intrinsic), operands);
  return result ? op->getResult(0) : Value();
}

SmallVector<Value> ThreadCode::members(Value aggregate) {
  auto type = cast<LLVM::LLVMStructType>(aggregate.getType());
  SmallVector<Value> values;
  for (int64_t i = 0; i < static_cast<int64_t>(type.getBody().size()); ++i)
    values.push_back(builder.create<LLVM::ExtractValueOp>(
        loc, aggregate, ArrayRef<int64_t>{i}));
  return values;
}

void ThreadCode::copyAsync(Value target, Value source, int64_t bytes,
                           Value present) {
  // Copies of 16 bytes use the variant of cp.async that bypasses the L1 cache.
  // Smaller copies have no such variant.
  std::string name = "llvm.nvvm.cp.async." +
                     std::string(bytes == 16 ? "cg" : "ca") +
                     ".shared.global." + std::to_string(bytes) + ".s";
  call(name, {}, {target, source, present});
}

void ThreadCode::commitCopies() {
  builder.create<NVVM::CpAsyncCommitGroupOp>(loc);
}

void ThreadCode::waitForCopies(int64_t pending) {
  builder.create<NVVM::CpAsyncWaitGroupOp>(loc, pending);
}

LLVM::InlineAsmOp emitPtx(OpBuilder &builder, Location loc, TypeRange results,
                          ValueRange operands, StringRef text,
                          StringRef constraints, bool hasSideEffects) {
  return builder.create<LLVM::InlineAsmOp>(
      loc, results, operands, text, constraints, hasSideEffects,
      /*is_align_stack=*/false, /*asm_dialect=*/LLVM::AsmDialectAttr(),
      /*operand_attrs=*/ArrayAttr());
}

Value acrossLanes(OpBuilder &builder, Location loc, Value value, int64_t lanes,
                  function_ref<Value(Value, Value)> combine) {
  for (int64_t offset = 1; offset < lanes; offset *= 2) {
    auto other = builder.create<mlir::gpu::ShuffleOp>(
        loc, value, offset, warpSize, mlir::gpu::ShuffleMode::XOR);
    value = combine(value, other.getShuffleResult());
  }
  return value;
}

} // namespace heddle::gpu
