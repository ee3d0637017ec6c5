//===- Reshard.h - Lowers reshards to collectives ---------------*- C++ -*-===//
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

/// The number of ranks along some mesh axes.
int64_t sizeOf(mlir::ArrayAttr axes, dist::MeshOp mesh);

/// The type of a rank's shard: every dimension is ceil(global size / shards)
/// long.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 dist::TensorShardingAttr sharding,
                                 dist::MeshOp mesh);

/// Replaces a reshard, whose input already has its local type, by collectives
/// and slices. A partial sum over an axis is all-reduced, or reduce-scattered
/// if that axis splits the result. An axis that moves to another dimension
/// becomes an all-to-all. An axis that is removed becomes an all-gather, and
/// one that is added becomes a slice.
void lowerReshard(dist::ReshardOp reshard, dist::MeshOp mesh);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_RESHARD_H
