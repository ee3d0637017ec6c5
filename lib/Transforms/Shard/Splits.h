//===- Splits.h - Whether sizes can be split as is asked -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Dist/ShardingRule.h"

namespace heddle::shard {

/// Emits an error on `op`, with the splits that are possible, where one of its
/// factors cannot be split over the axes that `factors` gives it.
mlir::LogicalResult
verifySplits(mlir::Operation *op, const dist::ShardingRule &rule,
             llvm::ArrayRef<llvm::SmallVector<mlir::Attribute>> factors,
             dist::MeshOp mesh);

/// Whether so many ranks share out the rows of the table that `ids` choose
/// from, in an embedding or its gradient. Positions are few, and every rank has
/// all of them; so it has of segments, of which there may be less than ranks.
bool splitsTable(const dist::ShardingRule &rule, mlir::Value ids,
                 int64_t ranks);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SPLITS_H
