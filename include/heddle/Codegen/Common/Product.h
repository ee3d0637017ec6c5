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

/// A matrix product C = A B in a kernel of the generator gemm, [m, k] by
/// [k, n], summed in f32. The other operations of the kernel's body compute
/// from the elements of C.
struct Product {
  /// nn.linear, nn.packed_linear or nn.linear_grad_weight.
  mlir::Operation *op = nullptr;
  /// Arguments of the kernel. If B is packed, the kernel may compute A itself.
  mlir::Value a, b;
  bool transA = false; ///< A is stored [k, m], otherwise [m, k].
  bool transB = false; ///< B is stored [n, k], otherwise [k, n].
  /// Added to the sums before they are rounded: a bias or an initial value;
  /// null: none.
  mlir::Value addend;
  bool addendIsRow = false; ///< The addend is a bias [n].
  /// The sums begin with the addend, so that they equal one sum over all k bit
  /// for bit. A target that cannot do this adds it like other addends.
  bool startsWithAddend = false;
  int64_t m = 0, n = 0, k = 0;
  /// Bits of a value of a packed B: 32, 16, 8 or 4; 0: B is not packed.
  int64_t bits = 0;
  /// Groups of inputs that share a scale in a quantized B; 0: B has floats.
  int64_t groups = 0;
  /// Elements of A that share a scale if A is rounded to int8; 0: it is not.
  int64_t inputBlock = 0;
  /// Scales and zeros of a quantized B, arguments of the kernel; `zeros` may be
  /// null.
  mlir::Value scales, zeros;
  /// The kernel's nn.sum_rows, which sum one factor over k: the gradient that
  /// a weight's gradient is computed from, for the gradient of the bias.
  llvm::SmallVector<mlir::Operation *, 1> sums;
  bool sumsA = false; ///< The operations in `sums` sum A, otherwise B.

  mlir::Value result() const { return op->getResult(0); }
  /// Whether `value` is a result of `sums`, so not computed from C.
  bool isSum(mlir::Value value) const {
    return llvm::is_contained(sums, value.getDefiningOp());
  }
  /// The result's dimensions but the last, whose product is m.
  llvm::ArrayRef<int64_t> rowDims() const {
    auto type = mlir::cast<mlir::RankedTensorType>(result().getType());
    return type.getShape().drop_back();
  }
};

/// The products in the kernel's body: one, or several that multiply the same
/// rows A by packed weights. Reports an error on a kernel that has none, or
/// several others.
mlir::FailureOr<llvm::SmallVector<Product, 1>>
describeProducts(planir::KernelOp kernel);

/// The product of a kernel for a target that generates one product in a kernel,
/// whose operands are arguments; reports an error on other kernels.
mlir::FailureOr<Product> describeProduct(planir::KernelOp kernel);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_PRODUCT_H
