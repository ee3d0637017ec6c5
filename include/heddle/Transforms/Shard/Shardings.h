//===- Shardings.h - Reads and makes shardings of values --------*- C++ -*-===//
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

/// The sharding of a tensor with `rank` dimensions of which none is split, and
/// which is a partial sum over the axes `unreduced`.
dist::TensorShardingAttr
wholeSharding(mlir::MLIRContext *context, int64_t rank,
              llvm::ArrayRef<mlir::Attribute> unreduced = {});

/// The sharding in which a state or bucket is stored: its attribute `storage`,
/// or whole if it has none.
dist::TensorShardingAttr storageOf(mlir::Operation *state);

/// The model's mesh. Emits an error (H0904) if there is none.
mlir::FailureOr<dist::MeshOp> meshOf(nn::ModelOp model);

/// The sharding that an attribute in the IR gives a value in a function or
/// step; null if none does. `symbols` are those of the model.
dist::TensorShardingAttr shardingOf(mlir::Value value,
                                    const mlir::SymbolTable &symbols);

/// Whether the sharding splits a tensor over axes with replicas, as ZeRO does.
bool splitsReplicas(dist::TensorShardingAttr sharding);

/// The sharding of a slice along the first dimension: the same without that
/// dimension.
dist::TensorShardingAttr dropFirst(dist::TensorShardingAttr sharding);
/// The sharding with a new first dimension that is not split, such as that of
/// slots or of all micro-batches.
dist::TensorShardingAttr addFirst(dist::TensorShardingAttr sharding);

/// Checks that every value has the sharding that its users expect, and that no
/// operation which expects a whole value reads a partial sum. Errors begin with
/// `code`.
mlir::LogicalResult verifyShardings(nn::ModelOp model, llvm::StringRef code);

} // namespace heddle::shard

#endif // HEDDLE_TRANSFORMS_SHARD_SHARDINGS_H
