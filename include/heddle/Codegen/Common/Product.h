//===- Product.h - The matrix product of a kernel ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_PRODUCT_H
#define HEDDLE_CODEGEN_COMMON_PRODUCT_H

#include "dialects/Plan/PlanDialect.h"

namespace heddle::codegen {

/// A product of a kernel of generator gemm: [m, k] by [k, n], summed in f32.
/// What else the body holds is computed from its elements.
struct Product {
  /// nn.linear, nn.packed_linear or nn.linear_grad_weight.
  mlir::Operation *op = nullptr;
  /// Arguments of the kernel; it may make the A of a packed B itself.
  mlir::Value a, b;
  bool transA = false; ///< A is stored [k, m], otherwise [m, k].
  bool transB = false; ///< B is stored [n, k], otherwise [k, n].
  /// Added to the sums before they are rounded: a bias or an initial value.
  mlir::Value addend;
  bool addendIsRow = false; ///< The addend is a bias: it has columns only.
  /// The addend is what sums begin with, so that they have the bits of one sum
  /// over all k. A target that cannot do this adds it like others.
  bool startsWithAddend = false;
  int64_t m = 0, n = 0, k = 0;
  /// Of a packed B: the bits of its values; 0: it is not packed.
  int64_t bits = 0;
  /// Of a packed B of codes.
  int64_t groups = 0;
  int64_t inputBlock = 0; ///< Of A, where it is rounded to codes; 0: it is not.
  mlir::Value scales, zeros; ///< Arguments of the kernel; zeros may be null.
  /// The kernel's nn.sum_rows: sums over k of the factor that is the gradient.
  llvm::SmallVector<mlir::Operation *, 1> sums;
  bool sumsA = false; ///< That factor is A, otherwise B.

  mlir::Value result() const { return op->getResult(0); }
  /// Whether a value of the body is one of the sums, and not computed from the
  /// product.
  bool isSum(mlir::Value value) const {
    return llvm::is_contained(sums, value.getDefiningOp());
  }
  /// The sizes of the result's dimensions but the last, which together are m.
  llvm::ArrayRef<int64_t> rowDims() const {
    auto type = mlir::cast<mlir::RankedTensorType>(result().getType());
    return type.getShape().drop_back();
  }
};

/// Finds the products in the kernel's body: one, or several of the same rows
/// with packed weights. Reports a kernel that has none.
mlir::FailureOr<llvm::SmallVector<Product, 1>>
describeProducts(planir::KernelOp kernel);

/// The same for a target that makes one product in a kernel, of arguments.
mlir::FailureOr<Product> describeProduct(planir::KernelOp kernel);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_PRODUCT_H
