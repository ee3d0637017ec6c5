//===- Bf16Unit.cpp - Tensor cores that multiply bf16 ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The unit that multiplies bf16 operands and adds their products in f32.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
class Bf16Unit : public NarrowMmaUnit {
public:
  bool takes(Type left, Type right, config::Matmul) const override {
    return left.isBF16() && right.isBF16();
  }
  uint32_t ones() const override { return 0x3f803f80; }
  StringRef rounding() const override { return "llvm.nvvm.ff2bf16x2.rn"; }

  /// Calls the intrinsic, since the operation nvvm.mma.sync takes bf16 only as
  /// vectors of f16, which do not match the intrinsic's types.
  void multiply(ThreadCode &c, ArrayRef<Value> left, ArrayRef<Value> right,
                MutableArrayRef<Value> sum) const override {
    callMma(c, "llvm.nvvm.mma.m16n8k16.row.col.bf16", left, right, sum);
  }
};
} // namespace

const MultiplyUnit &bf16Unit() {
  static const Bf16Unit unit;
  return unit;
}

} // namespace heddle::gpu
