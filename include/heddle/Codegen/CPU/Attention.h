//===- Attention.h - Attention for x86-64 -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits FlashAttention (Dao et al., arXiv 2205.14135) and its gradient for
// x86-64: softmax(scale q k^T) v for each head. For each block of queries the
// code loops over blocks of keys, so that the matrix of scores is never stored
// as a whole. The gradient recomputes the probabilities.
//
// Sums and exponentials are f32. The factors of products are f32 too, except
// for bf16 tensors on CPUs with a fast vdpbf16ps: there probabilities and
// gradients of scores are rounded to bf16. Threads compute disjoint results, so
// there is no barrier, and the results' bits do not depend on the number of
// threads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_ATTENTION_H
#define HEDDLE_CODEGEN_CPU_ATTENTION_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::cpu {

using codegen::AttentionSpec;

/// The operands of nn.attention that say which keys exist.
struct AttentionKeys {
  /// An i32 tensor [batch]: the number of tokens of each row of the batch. With
  /// ring attention it counts the tokens of all shards. Null if no row has
  /// padding tokens.
  mlir::Value lengths = {};
  /// Where queries and keys are in the sequence if ring attention splits it;
  /// otherwise null. The queries are shard `sequenceShard` of the sequence. In
  /// ring step `ringStep` the keys and values are shard (sequenceShard -
  /// ringStep) mod `AttentionSpec::sequenceShards`. Types: index or i64.
  mlir::Value sequenceShard = {}, ringStep = {};
  /// The layout of nn.attention, an i32 tensor; null if the mask has no block.
  /// `part` says which shard of the heads the rank has; null means 0.
  mlir::Value layout = {}, part = {};
};

/// The operands of nn.attention from which dropout computes its random numbers.
/// `rng` is the i32 tensor of seed and step. `layer`, `microBatch` and `part`
/// are indices (index or i64); `part` says which shard of the heads the rank
/// has, and null means 0. The operands may be null if there is no dropout
/// (`AttentionSpec::p` is 0).
struct AttentionRandom {
  mlir::Value rng, layer, microBatch, part;
};

/// The bytes of scratch memory that each thread needs.
int64_t attentionScratchBytes(const AttentionSpec &spec,
                              const CpuTarget &target);
int64_t attentionGradScratchBytes(const AttentionSpec &spec,
                                  const CpuTarget &target);

/// Emits the forward pass at the insertion point of `builder`, for thread
/// `thread` of `threads` (index or i64). `qkv` is one packed tensor of q, k and
/// v, or three tensors; `lse` is f32 [batch, heads, seq]. Tensors and `scratch`
/// are memrefs or !llvm.ptr; `scratch` is the thread's scratch memory, aligned
/// to 64 bytes.
/// Fails if `spec` is invalid.
mlir::LogicalResult
emitAttention(mlir::OpBuilder &builder, mlir::Location loc,
              const AttentionSpec &spec, const CpuTarget &target,
              mlir::ValueRange qkv, mlir::Value output, mlir::Value lse,
              const AttentionRandom &random, const AttentionKeys &keys,
              mlir::Value scratch, mlir::Value thread, mlir::Value threads);

/// Emits the gradients of the tensors in `qkv` and writes them to `gradQkv`:
/// one for the packed tensor, or three for q, k and v. `grad` is the gradient
/// of the forward pass's `output`. The other arguments are those of
/// `emitAttention`.
mlir::LogicalResult
emitAttentionGrad(mlir::OpBuilder &builder, mlir::Location loc,
                  const AttentionSpec &spec, const CpuTarget &target,
                  mlir::Value grad, mlir::ValueRange qkv, mlir::Value output,
                  mlir::Value lse, mlir::ValueRange gradQkv,
                  const AttentionRandom &random, const AttentionKeys &keys,
                  mlir::Value scratch, mlir::Value thread, mlir::Value threads);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_ATTENTION_H
