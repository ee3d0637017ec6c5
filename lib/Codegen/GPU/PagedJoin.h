//===- PagedJoin.h - Attention over a part of the keys ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combines results of attention, each over a part of the keys, as in
// Flash-Decoding (Dao et al. 2023). For a query and a part of the keys, m is
// the largest score times log2(e), l the sum of 2^(s - m) over the scores s
// (times log2(e)), and O the sum of the values weighted with 2^(s - m). Two
// parts are combined by
//
//   m = max(m1, m2),  l = 2^(m1 - m) l1 + 2^(m2 - m) l2,
//   O = 2^(m1 - m) O1 + 2^(m2 - m) O2
//
// and the output of attention is O / l.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PAGEDJOIN_H
#define HEDDLE_LIB_CODEGEN_GPU_PAGEDJOIN_H

#include "ThreadCode.h"

namespace heddle::gpu {

/// Emits operations on partial results of one query, as a thread has them: m,
/// l, and some features of O, in this order. The kernels of
/// nn.paged_attention and nn.paged_attention_join both use this class, so that
/// their results have the same bits.
class PagedJoin {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  explicit PagedJoin(ThreadCode &c) : c(c) {}

  /// The partial result over no keys, the neutral element of `join`: it adds
  /// exactly zero.
  Values none(int64_t features);
  /// Combines two partial results.
  Values join(mlir::ValueRange left, mlir::ValueRange right);
  /// Whether the query sees a key, given l.
  Value isAny(Value weights);
  /// A feature of the output: O / l, or zero if the token does not exist or
  /// sees no key.
  Value outputOf(Value sum, Value weights, Value isThere);

private:
  ThreadCode &c;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PAGEDJOIN_H
