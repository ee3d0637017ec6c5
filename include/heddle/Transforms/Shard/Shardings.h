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

/// Returns a sharding for a tensor with `rank` dimensions. No dimension is
/// split, and the tensor is a partial sum over the mesh axes `unreduced`.
dist::TensorShardingAttr
wholeSharding(mlir::MLIRContext *context, int64_t rank,
              llvm::ArrayRef<mlir::Attribute> unreduced = {});

/// Returns the sharding in which a state or bucket is stored, which its
/// attribute `storage` gives. Without the attribute no dimension is split.
dist::TensorShardingAttr storageOf(mlir::Operation *state);

/// Whether each rank reads its own summand of the operand, if that is a partial
/// sum.
bool readsSummand(mlir::OpOperand &operand);

/// The model's mesh. Emits an error (H0904) if there is none.
mlir::FailureOr<dist::MeshOp> meshOf(nn::ModelOp model);

/// Returns the sharding that an attribute in the IR gives a value in a function
/// or step, or null if no attribute does. `symbols` is the symbol table of the
/// model.
dist::TensorShardingAttr shardingOf(mlir::Value value,
                                    const mlir::SymbolTable &symbols);

/// Whether the sharding splits a tensor over mesh axes whose ranks hold
/// replicas of the parameters, as ZeRO does.
bool splitsReplicas(dist::TensorShardingAttr sharding);

/// Returns the sharding of a slice of a tensor along the first dimension. It is
/// the tensor's sharding without the first dimension.
dist::TensorShardingAttr dropFirst(dist::TensorShardingAttr sharding);
/// Returns the sharding with a new first dimension, which is not split. The new
/// dimension is for example that of micro-batches.
dist::TensorShardingAttr addFirst(dist::TensorShardingAttr sharding);

/// Checks that every value has the sharding that its users expect. Also checks
/// that an operation which expects a complete value never reads a partial sum.
/// Errors begin with `code`.
mlir::LogicalResult verifyShardings(nn::ModelOp model, llvm::StringRef code);

} // namespace heddle::shard

#endif // HEDDLE_TRANSFORMS_SHARD_SHARDINGS_H
