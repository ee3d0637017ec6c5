//===- Reshard.h - Local types, collectives, parts --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_RESHARD_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_RESHARD_H

#include "dialects/NN/NNDialect.h"

namespace heddle::spmd {

/// The number of ranks along some axes.
int64_t sizeOf(mlir::ArrayAttr axes, dist::MeshOp mesh);

/// The type of a rank's part: every dimension is ceil(whole / parts) long.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 dist::TensorShardingAttr sharding,
                                 dist::MeshOp mesh);

/// Replaces a reshard, whose input has its local type already, by collectives
/// and slices: partial sums are reduced (scattered where that is what is
/// wanted), an axis that moves to another dimension is exchanged, one that goes
/// is gathered, one that comes is sliced.
void lowerReshard(dist::ReshardOp reshard, dist::MeshOp mesh);

/// How the factors of an operation's rule were split.
struct Split {
  dist::ShardingRule rule;
  llvm::SmallVector<mlir::ArrayAttr> axes; ///< Of each factor.
  llvm::SmallVector<int64_t> parts;        ///< Into how many parts each.
  /// The axes of the factor that is named so; empty where there is none.
  mlir::ArrayAttr axesOf(llvm::StringRef name) const {
    int64_t index = rule.indexOf(name);
    return index < 0 ? mlir::ArrayAttr() : axes[index];
  }
};

/// Tells an operation which part of the whole it computes, where that matters:
/// random numbers, positions, rows of a vocabulary.
void placePart(mlir::Operation *op, const Split &split);

/// Replaces an attention, or its gradient, whose sequence is split into
/// `places` parts over `axes`, by one for each part of the keys, which go
/// around the ring of ranks (Liu et al., arXiv 2310.01889).
void makeRing(nn::AttentionOp op, mlir::ArrayAttr axes, int64_t places);
void makeRing(nn::AttentionGradOp op, mlir::ArrayAttr axes, int64_t places);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_RESHARD_H
