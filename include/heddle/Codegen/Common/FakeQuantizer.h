//===- FakeQuantizer.h - Arithmetic of nn.fake_quantize ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_FAKEQUANTIZER_H
#define HEDDLE_CODEGEN_COMMON_FAKEQUANTIZER_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle::codegen {

/// Emits the arithmetic of nn.fake_quantize in f32, for scalars or vectors. The
/// results are those of rt::GroupQuantizer: code generators fuse a product with
/// the sum that reads it, which would round differently, so that a select lies
/// between the two.
class FakeQuantizer {
public:
  /// What the elements of a group have in common: f32 numbers, as operands of
  /// nn.fake_quantize. `mean` and `level` may be null.
  struct Group {
    mlir::Value largest, negative, bits, ratio, mean, level;
  };

  /// Emits what is computed once for a group. `type` is the type of the
  /// elements that `quantize` gets.
  FakeQuantizer(mlir::ImplicitLocOpBuilder &b, const Group &group,
                bool isAsymmetric, mlir::Type type);

  /// Quantizes elements of the group. `b` may insert into a loop inside of the
  /// code that the constructor emitted.
  mlir::Value quantize(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

private:
  mlir::Type type;
  // All are of `type`, or vectors of i1.
  mlir::Value none, scale, divisor, zero, low, high, ratio, rest;
  mlir::Value hasScale, isWhole, isNone; ///< Whether the ratio is 1, or 0.
  mlir::Value mean, level, threshold, hasThree, hasTwo;
};

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_FAKEQUANTIZER_H
