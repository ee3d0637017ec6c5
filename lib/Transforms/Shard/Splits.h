//===- Splits.h - Whether ranks can split a dimension -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks whether dimensions can be split over ranks, for sharding propagation
// and tensor parallelism.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Dist/ShardingRule.h"

namespace heddle::shard {

/// Checks that each factor of `rule` (dimensions that are split alike) can be
/// split over its mesh axes in `factors`. Otherwise emits the error H0130 on
/// `op`, which lists the possible numbers of ranks.
mlir::LogicalResult
verifySplits(mlir::Operation *op, const dist::ShardingRule &rule,
             llvm::ArrayRef<llvm::SmallVector<mlir::Attribute>> factors,
             dist::MeshOp mesh);

/// Whether the table of an embedding, or the gradient of a table, is split by
/// rows over `ranks`. A table of positions is not split, because it is small. A
/// table with fewer rows than ranks, such as a table of segments, is not split
/// either.
bool splitsTable(const dist::ShardingRule &rule, mlir::Value ids,
                 int64_t ranks);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H
