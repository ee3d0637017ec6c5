//===- PartialAttention.h - Attention over a part of keys -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With m the largest score of a part, times log2(e), l the sum of the powers
// 2^(s - m) and O that of the values times these, two parts are
//
//   m = max(m1, m2),  l = 2^(m1 - m) l1 + 2^(m2 - m) l2,
//   O = 2^(m1 - m) O1 + 2^(m2 - m) O2
//
// together, and the output is O / l: as in Flash-Decoding (Dao et al. 2023).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H
#define HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H

#include "KernelEmitter.h"

namespace heddle::cpu {

/// A part is 2 + `vectors` values: m, l, and O in vectors of `lanes`. In memory
/// it is as nn.paged_attention says: f32, O, then l, then m.
class PartialAttention {
public:
  using Value = mlir::Value;
  using Values = LoopBuilder::Values;

  /// For heads of `dims` features.
  PartialAttention(KernelEmitter &k, int64_t dims)
      : b(k.b), dims(dims), lanes(k.evaluator.laneCount()),
        vectors(llvm::divideCeil(dims, lanes)),
        headVector(mlir::VectorType::get(lanes, b.builder.getF32Type())) {}

private:
  LoopBuilder &b;
  int64_t dims;

public:
  const int64_t lanes, vectors;
  const mlir::VectorType headVector;

  /// Elements of a part in memory.
  int64_t size() const { return dims + 2; }
  /// The lanes of vector `index` of a head that there are; null for all.
  Value maskOf(int64_t index) {
    int64_t left = dims - index * lanes;
    return left >= lanes ? Value() : b.mask(b.constant(left), lanes);
  }
  Value splat(Value scalar, mlir::VectorType type) {
    return b.create<mlir::vector::BroadcastOp>(type, scalar);
  }
  Value larger(Value x, Value y);

  /// The part that nobody sees: joined with another one, it adds exactly zero.
  Values none();
  Values join(mlir::ValueRange left, mlir::ValueRange right);
  Values load(Value from);
  void store(mlir::ValueRange part, Value to);
  /// Writes the output of a head as `type`; zeros unless the token `isThere`.
  void storeOutput(mlir::ValueRange part, Value isThere, Value to,
                   mlir::Type type);
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H
