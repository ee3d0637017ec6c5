//===- Shardings.h - The shardings that the shard phase gave ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SHARD_SHARDINGS_H
#define HEDDLE_TRANSFORMS_SHARD_SHARDINGS_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::shard {

/// A sharding that splits none of `rank` dimensions. The value is a partial sum
/// over the axes `unreduced`.
dist::TensorShardingAttr
wholeSharding(mlir::MLIRContext *context, int64_t rank,
              llvm::ArrayRef<mlir::Attribute> unreduced = {});

/// How a state or bucket is stored; whole where its attribute `storage` is
/// missing.
dist::TensorShardingAttr storageOf(mlir::Operation *state);

/// The model's mesh; an error where it has none.
mlir::FailureOr<dist::MeshOp> meshOf(nn::ModelOp model);

/// The sharding of a value in a function or step, as it stands in the model
/// with those symbols; null where nothing splits it.
dist::TensorShardingAttr shardingOf(mlir::Value value,
                                    const mlir::SymbolTable &symbols);

/// Whether ranks hold different parts of what they would else hold alike.
bool splitsReplicas(dist::TensorShardingAttr sharding);

/// The sharding without its first dimension: that of a slice along it.
dist::TensorShardingAttr dropFirst(dist::TensorShardingAttr sharding);
/// The sharding behind a first dimension that is not split: that of slots, or
/// of all micro-batches.
dist::TensorShardingAttr addFirst(dist::TensorShardingAttr sharding);

/// Checks that every value is sharded as those that take it count on, and that
/// no partial sum is taken for a whole one. Errors begin with `code`.
mlir::LogicalResult verifyShardings(nn::ModelOp model, llvm::StringRef code);

} // namespace heddle::shard

#endif // HEDDLE_TRANSFORMS_SHARD_SHARDINGS_H
