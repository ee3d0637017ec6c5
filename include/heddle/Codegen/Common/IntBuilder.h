//===- IntBuilder.h - Builds integer arithmetic -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_INTBUILDER_H
#define HEDDLE_CODEGEN_COMMON_INTBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace heddle::codegen {

/// Builds arithmetic on integers of one type: i64 for a CPU, i32 for a GPU,
/// where 64 bits cost twice as much, or on vectors of them. Operands of
/// divisions must not be negative; minimum, maximum and comparisons are signed.
class IntBuilder {
public:
  using Value = mlir::Value;

  IntBuilder(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type)
      : builder(builder), loc(loc), type(type) {}

  Value constant(int64_t value) {
    mlir::TypedAttr attr =
        builder.getIntegerAttr(mlir::getElementTypeOrSelf(type), value);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      attr = mlir::DenseElementsAttr::get(vector, attr);
    return builder.create<mlir::arith::ConstantOp>(loc, attr);
  }
  Value add(Value a, Value b) { return make<mlir::arith::AddIOp>(a, b); }
  Value add(Value a, int64_t b) { return b ? add(a, constant(b)) : a; }
  Value sub(Value a, Value b) { return make<mlir::arith::SubIOp>(a, b); }
  Value mul(Value a, Value b) { return make<mlir::arith::MulIOp>(a, b); }
  Value mul(Value a, int64_t b) { return b == 1 ? a : mul(a, constant(b)); }
  Value div(Value a, int64_t b) {
    return b == 1 ? a : make<mlir::arith::DivUIOp>(a, constant(b));
  }
  Value rem(Value a, int64_t b) {
    return b == 1 ? constant(0) : make<mlir::arith::RemUIOp>(a, constant(b));
  }
  Value floorTo(Value a, int64_t unit) { return mul(div(a, unit), unit); }
  Value ceilTo(Value a, int64_t unit) {
    return floorTo(add(a, unit - 1), unit);
  }
  /// Zeros are shifted in.
  Value shiftRight(Value a, Value bits) {
    return make<mlir::arith::ShRUIOp>(a, bits);
  }
  Value bitsOfBoth(Value a, Value b) { return make<mlir::arith::AndIOp>(a, b); }
  Value min(Value a, Value b) { return make<mlir::arith::MinSIOp>(a, b); }
  Value min(Value a, int64_t b) { return min(a, constant(b)); }
  Value max(Value a, Value b) { return make<mlir::arith::MaxSIOp>(a, b); }
  Value max(Value a, int64_t b) { return max(a, constant(b)); }
  Value less(Value a, Value b) {
    return builder.createOrFold<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::slt, a, b);
  }
  Value less(Value a, int64_t b) { return less(a, constant(b)); }
  Value atLeast(Value a, Value b) {
    return builder.createOrFold<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::sge, a, b);
  }
  /// Whether both conditions are true.
  Value both(Value a, Value b) {
    return builder.createOrFold<mlir::arith::AndIOp>(loc, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return builder.createOrFold<mlir::arith::SelectOp>(loc, condition, a, b);
  }
  /// Converts an index, or a signed integer of another width, to the builder's
  /// integer type. If that is a vector, all lanes get the value.
  Value from(Value value) {
    if (value.getType() == type)
      return value;
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type)) {
      IntBuilder lane(builder, loc, vector.getElementType());
      return builder.create<mlir::vector::BroadcastOp>(loc, vector,
                                                       lane.from(value));
    }
    if (value.getType().isIndex())
      return builder.create<mlir::arith::IndexCastOp>(loc, type, value);
    bool isWider =
        value.getType().getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth();
    return isWider ? builder.create<mlir::arith::TruncIOp>(loc, type, value)
                         .getResult()
                   : builder.create<mlir::arith::ExtSIOp>(loc, type, value)
                         .getResult();
  }
  /// Converts a value that is not negative to an index.
  Value toIndex(Value value) {
    return builder.createOrFold<mlir::arith::IndexCastUIOp>(
        loc, builder.getIndexType(), value);
  }
  mlir::Type getType() const { return type; }

private:
  template <typename Op> Value make(Value a, Value b) {
    return builder.createOrFold<Op>(loc, a, b);
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type type;
};

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_INTBUILDER_H
