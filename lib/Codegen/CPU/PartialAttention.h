//===- PartialAttention.h - Attention over a part of keys -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits code that combines results of attention, each over a part of the keys,
// as in Flash-Decoding (Dao et al. 2023). For a query and a part of the keys, m
// is the largest score times log2(e), l the sum of 2^(s - m) over the scores s
// (times log2(e)), and O the sum of the values weighted with 2^(s - m). Two
// parts are combined by
//
//   m = max(m1, m2),  l = 2^(m1 - m) l1 + 2^(m2 - m) l2,
//   O = 2^(m1 - m) O1 + 2^(m2 - m) O2
//
// and the output of attention is O / l.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H
#define HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H

#include "KernelEmitter.h"

namespace heddle::cpu {

/// Emits operations on partial results of one head. A partial result is a list
/// of 2 + `vectors` values: m, l, and O in vectors of `lanes` lanes. In memory
/// it is f32 in the order O, l, m (see nn.paged_attention).
class PartialAttention {
public:
  using Value = mlir::Value;
  using Values = LoopBuilder::Values;

  /// `dims` is the number of features of a head. `maySeeNoKey` says whether a
  /// token that exists may see no key.
  PartialAttention(KernelEmitter &k, int64_t dims, bool maySeeNoKey)
      : b(k.b), dims(dims), maySeeNoKey(maySeeNoKey),
        lanes(k.evaluator.laneCount()), vectors(llvm::divideCeil(dims, lanes)),
        headVector(mlir::VectorType::get(lanes, b.builder.getF32Type())) {}

private:
  LoopBuilder &b;
  int64_t dims;
  bool maySeeNoKey;

public:
  const int64_t lanes, vectors;
  const mlir::VectorType headVector;

  /// The number of elements of a partial result in memory.
  int64_t size() const { return dims + 2; }
  /// A mask for the lanes of vector `index`: true for lanes that are features
  /// of the head, not padding. Null if all lanes are features.
  Value maskOf(int64_t index) {
    int64_t left = dims - index * lanes;
    return left >= lanes ? Value() : b.mask(b.constant(left), lanes);
  }
  Value splat(Value scalar, mlir::VectorType type) {
    return b.create<mlir::vector::BroadcastOp>(type, scalar);
  }
  Value larger(Value x, Value y);

  /// The partial result over no keys, the neutral element of `join`: it adds
  /// exactly zero.
  Values none();
  /// Combines two partial results.
  Values join(mlir::ValueRange left, mlir::ValueRange right);
  Values load(Value from);
  void store(mlir::ValueRange part, Value to);
  /// Writes the output O / l of a head, rounded to `type`; zeros if the token
  /// is padding after the end of its row (`isThere` is false) or sees no key.
  void storeOutput(mlir::ValueRange part, Value isThere, Value to,
                   mlir::Type type);
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PARTIALATTENTION_H
