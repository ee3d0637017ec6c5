//===- PairUnit.cpp - Units that multiply pairs of narrow elements --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PairUnit.h"

using namespace mlir;

namespace heddle::cpu {

bool multipliesPairs(const CpuTarget &target, Type left, Type right) {
  return target.hasBf16Dot && left.isBF16() && right.isBF16();
}

bool multipliesTiles(const CpuTarget &target, Type left, Type right) {
  return (target.hasAmx && left.isBF16() && right.isBF16()) ||
         (target.hasAmxFp16 && left.isF16() && right.isF16());
}

AmxTiles::Kind pairsOf(Type element) {
  return element.isF16() ? AmxTiles::Kind::Fp16Pairs
                         : AmxTiles::Kind::Bf16Pairs;
}

Value addPairProducts(LoopBuilder &b, Type element, Value left, Value right,
                      Value sum) {
  auto sums = cast<VectorType>(sum.getType());
  auto pairs = VectorType::get(2 * sums.getNumElements(), element);
  Value first = b.create<LLVM::BitcastOp>(pairs, left);
  Value second = b.create<LLVM::BitcastOp>(pairs, right);
  auto call = b.builder.create<LLVM::CallIntrinsicOp>(
      b.loc, sums, b.builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
      ValueRange{sum, first, second});
  return call.getResult(0);
}

} // namespace heddle::cpu
