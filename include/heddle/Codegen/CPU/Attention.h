//===- Attention.h - Attention for x86-64 -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits softmax(scale q k^T) v by heads, and its gradient, without a matrix of
// scores in memory: a block of queries meets one block of keys after the other
// (Dao et al., arXiv 2205.14135), and the gradient computes the probabilities
// again. Sums and exponentials are f32. The factors of products are f32 too,
// except for bf16 tensors on CPUs with a fast vdpbf16ps: there probabilities
// and gradients of scores are rounded to bf16. Threads share no result, so
// there is no barrier and the bits do not depend on their number.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_ATTENTION_H
#define HEDDLE_CODEGEN_CPU_ATTENTION_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::cpu {

using codegen::AttentionSpec;

/// Which keys there are.
struct AttentionKeys {
  /// The i32 tensor of how many tokens of each row exist, in the whole
  /// sequence; null where all do.
  mlir::Value lengths = {};
  /// Which part of the sequence the queries are, and how many parts before
  /// that, around the end, keys and values are (index or i64; null where the
  /// sequence is whole). Needed when `AttentionSpec::places` > 1.
  mlir::Value sequenceShard = {}, ringStep = {};
};

/// Where random numbers come from: the i32 tensor of seed and step, and the
/// layer, micro-batch and part of the heads (index or i64; a null part is 0).
/// Needed when `AttentionSpec::p` > 0.
struct AttentionRandom {
  mlir::Value rng, layer, microBatch, part;
};

/// Bytes of scratch that each thread needs.
int64_t attentionScratchBytes(const AttentionSpec &spec,
                              const CpuTarget &target);
int64_t attentionGradScratchBytes(const AttentionSpec &spec,
                                  const CpuTarget &target);

/// Emits the forward pass at the insertion point of `builder`. `qkv` is the
/// packed tensor, or q, k and v; `lse` is f32 [batch, heads, seq]. Tensors and
/// `scratch` are memrefs or !llvm.ptr; `scratch` is the calling thread's own,
/// aligned to 64 bytes. `thread` and `threads` are of type index or i64. Fails
/// when `spec` is not one that this header describes.
mlir::LogicalResult
emitAttention(mlir::OpBuilder &builder, mlir::Location loc,
              const AttentionSpec &spec, const CpuTarget &target,
              mlir::ValueRange qkv, mlir::Value output, mlir::Value lse,
              const AttentionRandom &random, const AttentionKeys &keys,
              mlir::Value scratch, mlir::Value thread, mlir::Value threads);

/// Emits the gradient: of the packed tensor, or of q, k and v, as `qkv` is.
/// `grad` is the gradient of the forward pass's `output`.
mlir::LogicalResult
emitAttentionGrad(mlir::OpBuilder &builder, mlir::Location loc,
                  const AttentionSpec &spec, const CpuTarget &target,
                  mlir::Value grad, mlir::ValueRange qkv, mlir::Value output,
                  mlir::Value lse, mlir::ValueRange gradQkv,
                  const AttentionRandom &random, const AttentionKeys &keys,
                  mlir::Value scratch, mlir::Value thread, mlir::Value threads);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_ATTENTION_H
