//===- Reshard.h - Local types and collectives ------------------*- C++ -*-===//
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

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_RESHARD_H
