//===- LinalgBuilder.h - Builds linalg operations ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builders with which nn operations are lowered to linalg on tensors.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_COMMON_LINALGBUILDER_H
#define HEDDLE_LIB_CODEGEN_COMMON_LINALGBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle::codegen {

/// Builds the scalar body of a linalg operation. Values in the body are f32,
/// whatever floats the tensors hold.
class ScalarBuilder : public mlir::ImplicitLocOpBuilder {
public:
  ScalarBuilder(mlir::Location loc, mlir::OpBuilder &builder)
      : ImplicitLocOpBuilder(loc, builder) {}

  mlir::Value f32(double value);
  mlir::Value i32(uint32_t value);
  mlir::Value i64(int64_t value);
  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value exp(mlir::Value x);
  /// 1 / (1 + exp(-x)).
  mlir::Value sigmoid(mlir::Value x);
  /// The index of this iteration in dimension `dim`.
  mlir::Value position(int64_t dim);
  /// Converts bf16 and f16 to f32; returns other types unchanged.
  mlir::Value widen(mlir::Value value);
  /// The element of `tensor` at the indices `at`, converted to f32 by `widen`.
  mlir::Value extract(mlir::Value tensor, mlir::ValueRange at);
};

using Values = llvm::SmallVector<mlir::Value>;

/// An input of a linalg operation, and which dimensions of the iteration space
/// index it.
struct Input {
  enum Kind {
    Full,    ///< All dimensions.
    Rows,    ///< All dimensions but the last.
    Columns, ///< The last dimension only.
    Scalar,  ///< No dimension.
    Along,   ///< The dimensions `dims`, in this order.
  };
  mlir::Value value;
  Kind kind = Full;
  llvm::SmallVector<unsigned> dims = {};
};

inline Input rows(mlir::Value value) { return {value, Input::Rows}; }
inline Input columns(mlir::Value value) { return {value, Input::Columns}; }
inline Input scalar(mlir::Value value) { return {value, Input::Scalar}; }
inline Input along(mlir::Value value, llvm::ArrayRef<unsigned> dims) {
  return {value, Input::Along, llvm::SmallVector<unsigned>(dims)};
}

/// Builds linalg.generic operations on tensors of static shape.
class LinalgBuilder {
public:
  LinalgBuilder(mlir::Location loc, mlir::OpBuilder &builder)
      : loc(loc), builder(builder) {}

  using Body = llvm::function_ref<Values(ScalarBuilder &, mlir::ValueRange)>;
  using Body1 =
      llvm::function_ref<mlir::Value(ScalarBuilder &, mlir::ValueRange)>;
  enum class Combine { Add, Maximum };

  /// Builds an element-wise operation with results of `types`.
  Values map(mlir::TypeRange types, llvm::ArrayRef<Input> inputs, Body body);
  /// Builds an element-wise operation with one result.
  mlir::Value map(mlir::Type type, llvm::ArrayRef<Input> inputs, Body1 body);

  /// Computes `term` at every index of the iteration space `shape` and reduces
  /// the terms over the last dimension. The result has the element type of the
  /// term.
  mlir::Value reduceLast(llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<Input> inputs, Combine combine,
                         Body1 term);
  /// Computes `term` at every index of the iteration space `shape` and reduces
  /// the terms over all dimensions but the first `kept`. `type` is the element
  /// type of the term and of the result.
  mlir::Value reduceTail(mlir::Type type, llvm::ArrayRef<int64_t> shape,
                         unsigned kept, llvm::ArrayRef<Input> inputs,
                         Combine combine, Body1 term);
  /// An input whose elements are not read. It defines the iteration space of an
  /// operation whose body extracts elements of tensors itself.
  Input space(llvm::ArrayRef<int64_t> shape);
  /// Sums `term` over all rows, for each column, and adds the column's element
  /// of `init` (null: 0). Computes in f32 and rounds the result to `type`.
  mlir::Value sumRows(mlir::Type type, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<Input> inputs, mlir::Value init,
                      Body1 term);
  /// The sum of `term` over all elements of inputs of the same shape, as an f64
  /// tensor of rank 0. The body of `term` computes in f64.
  mlir::Value sumAll(llvm::ArrayRef<Input> inputs, Body1 term);

  mlir::Location loc;
  mlir::OpBuilder &builder;

private:
  mlir::Value filled(mlir::RankedTensorType type, double value);
  mlir::Value reduce(llvm::ArrayRef<Input> inputs, mlir::Value init,
                     mlir::AffineMap outMap, unsigned rank, Combine combine,
                     Body1 term);
  mlir::AffineMap mapOf(const Input &input, unsigned rank);
};

} // namespace heddle::codegen

#endif // HEDDLE_LIB_CODEGEN_COMMON_LINALGBUILDER_H
