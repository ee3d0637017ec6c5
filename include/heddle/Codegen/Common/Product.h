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

/// A matrix product C = A B of [m, k] by [k, n] in a kernel, summed in f32. The
/// other operations of the kernel compute from elements of C.
struct Product {
  /// nn.linear, nn.packed_linear or nn.linear_grad_weight.
  mlir::Operation *op = nullptr;
  /// Arguments of the kernel. If B is packed (nn.packed_linear), the kernel may
  /// compute A itself.
  mlir::Value a, b;
  bool transA = false; ///< A is stored [k, m], otherwise [m, k].
  bool transB = false; ///< B is stored [n, k], otherwise [k, n].
  /// A bias or an initial value that is added to the f32 sums over k before
  /// they are rounded to the result; null: none.
  mlir::Value addend;
  bool addendIsRow = false; ///< The addend is a bias [n].
  /// Whether the sums over k should start with the addend rather than add it at
  /// the end. If the addend is the sum over earlier values of k, the result is
  /// then bit-identical to a single sum over all k. A target that cannot start
  /// with the addend adds it at the end.
  bool startsWithAddend = false;
  int64_t m = 0, n = 0, k = 0;
  /// If the right operand B is packed (nn.packed_linear): the number of bits of
  /// a weight, 32, 16, 8 or 4. 0: B is not packed.
  int64_t bits = 0;
  /// If the right operand B is quantized: the number of groups into which its k
  /// rows are split. Each group has its own scales. 0: B has floats.
  int64_t groups = 0;
  /// The number of elements of the left operand A that share a scale if A is
  /// rounded to int8. 0: A is not rounded.
  int64_t inputBlock = 0;
  /// Scales and zero points of a quantized right operand B, arguments of the
  /// kernel; `zeros` may be null.
  mlir::Value scales, zeros;
  /// The kernel's nn.sum_rows operations. Each of them sums an operand of the
  /// product along k. In the kernel of a weight's gradient this operand is the
  /// output's gradient, and its sum is the gradient of the bias.
  llvm::SmallVector<mlir::Operation *, 1> sums;
  bool sumsA = false; ///< The operations in `sums` sum A, otherwise B.

  mlir::Value result() const { return op->getResult(0); }
  /// Whether `value` is a result of one of the nn.sum_rows operations in
  /// `sums`. These sum an operand of the product, so they do not need the
  /// product's result.
  bool isSum(mlir::Value value) const {
    return llvm::is_contained(sums, value.getDefiningOp());
  }
  /// The sizes of all dimensions of the result but the last. Multiplied
  /// together they give m, the number of rows.
  llvm::ArrayRef<int64_t> rowDims() const {
    auto type = mlir::cast<mlir::RankedTensorType>(result().getType());
    return type.getShape().drop_back();
  }
};

/// Describes a product with a packed weight, in a kernel or outside of one.
Product describe(nn::PackedLinearOp op);

/// Describes the products in the kernel's body: one product, or several that
/// multiply the same rows A by packed weights. Reports an error if the kernel
/// has no product, or several products that do not have this form.
mlir::FailureOr<llvm::SmallVector<Product, 1>>
describeProducts(planir::KernelOp kernel);

/// Checks that the packed weights of a kernel's products have the layout that
/// the target's kernels read. Reports H0174.
mlir::LogicalResult verifyLayout(llvm::ArrayRef<Product> products,
                                 nn::PackedLayout layout);

/// Returns the only one of a kernel's `products`, for targets that compute one
/// product in a kernel and do not compute its operands in the same kernel.
/// Reports an error if there are several, or if an operand is not an argument
/// of the kernel.
mlir::FailureOr<Product> soleProduct(planir::KernelOp kernel,
                                     llvm::ArrayRef<Product> products);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_PRODUCT_H
