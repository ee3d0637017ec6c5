//===- AmxTiles.cpp - Instructions on AMX tiles ----------------------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AmxTiles.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace heddle::cpu {

void AmxTiles::configure(Value config, ArrayRef<Shape> shapes) {
  Type i8 = b.builder.getI8Type(), i16 = b.builder.getI16Type();
  auto put = [&](int64_t at, Type type, int64_t value) {
    Value constant =
        b.create<arith::ConstantOp>(b.builder.getIntegerAttr(type, value));
    b.store(constant, b.advance(config, i8, at), 1);
  };
  for (int64_t at = 0; at < configBytes; at += 8)
    put(at, b.builder.getI64Type(), 0);
  put(0, i8, 1); // Palette 1 has eight tiles of up to 1 KiB.
  for (int64_t tile = 0; tile < count; ++tile) {
    Shape shape = shapes.empty() ? Shape() : shapes[tile];
    put(16 + 2 * tile, i16, shape.rowBytes);
    put(48 + tile, i8, shape.rows);
  }
  emit("ldtilecfg", config);
}

void AmxTiles::release() { emit("tilerelease", {}); }

void AmxTiles::zero(int tile) { emit("tilezero", number(tile)); }

void AmxTiles::load(int tile, Value pointer, int64_t strideBytes) {
  emit("tileloadd64", {number(tile), pointer, b.constant(strideBytes)});
}

void AmxTiles::store(int tile, Value pointer, int64_t strideBytes) {
  emit("tilestored64", {number(tile), pointer, b.constant(strideBytes)});
}

void AmxTiles::multiplyAdd(int sum, int left, int right, Kind kind) {
  StringRef name = kind == Kind::Bf16Pairs   ? "tdpbf16ps"
                   : kind == Kind::Fp16Pairs ? "tdpfp16ps"
                   : kind == Kind::Signed    ? "tdpbssd"
                                             : "tdpbsud";
  emit(name, {number(sum), number(left), number(right)});
}

Value AmxTiles::number(int tile) {
  return b.create<LLVM::ConstantOp>(b.builder.getI8Type(), tile);
}

void AmxTiles::emit(StringRef instruction, ValueRange operands) {
  if (!emulated) {
    std::string name = ("llvm.x86." + instruction).str();
    b.builder.create<LLVM::CallIntrinsicOp>(b.loc, TypeRange(), StringRef(name),
                                            operands);
    return;
  }
  std::string name = ("heddle_amx_" + instruction).str();
  Operation *module = SymbolTable::getNearestSymbolTable(
      b.builder.getInsertionBlock()->getParentOp());
  auto function = dyn_cast_or_null<LLVM::LLVMFuncOp>(
      SymbolTable::lookupSymbolIn(module, name));
  if (!function) {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPointToStart(&module->getRegion(0).front());
    auto type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(b.builder.getContext()),
        llvm::to_vector(operands.getTypes()));
    function = b.builder.create<LLVM::LLVMFuncOp>(b.loc, name, type);
  }
  b.builder.create<LLVM::CallOp>(b.loc, function, operands);
}

} // namespace heddle::cpu
