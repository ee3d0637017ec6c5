//===- RingAttention.h - Attention over a split sequence --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_RINGATTENTION_H
#define HEDDLE_DIALECTS_NN_RINGATTENTION_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// Replaces an attention, or its gradient, by ring attention (Liu et al.,
/// arXiv 2310.01889): the sequence is split into `shards` shards over the mesh
/// axes `axes`, and ranks pass the shards of keys and values around.
void makeRingAttention(AttentionOp op, mlir::ArrayAttr axes, int64_t shards);
void makeRingAttention(AttentionGradOp op, mlir::ArrayAttr axes,
                       int64_t shards);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_RINGATTENTION_H
