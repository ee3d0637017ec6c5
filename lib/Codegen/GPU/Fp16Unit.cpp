//===- Fp16Unit.cpp - Tensor cores that multiply fp16 ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The unit that multiplies fp16 operands and adds their products in f32.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
class Fp16Unit : public NarrowMmaUnit {
public:
  bool takes(Type left, Type right, config::Matmul) const override {
    return left.isF16() && right.isF16();
  }
  uint32_t ones() const override { return 0x3c003c00; }
  StringRef rounding() const override { return "llvm.nvvm.ff2f16x2.rn"; }

  void multiply(ThreadCode &c, ArrayRef<Value> left, ArrayRef<Value> right,
                MutableArrayRef<Value> sum) const override {
    auto pairs = [&](ArrayRef<Value> words) {
      auto type = VectorType::get({2}, c.builder.getF16Type());
      return llvm::map_to_vector(words, [&](Value word) {
        return c.create<LLVM::BitcastOp>(type, word);
      });
    };
    callMma(c, "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", pairs(left),
            pairs(right), sum);
  }
};
} // namespace

const MultiplyUnit &fp16Unit() {
  static const Fp16Unit unit;
  return unit;
}

} // namespace heddle::gpu
