//===- LayerUses.h - Which layers use an activation -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by the passes that split or offload saved activations: it tells which
// values the backward pass uses many layers after they were computed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::spmd {

/// An activation is split or offloaded if that many layers, or more, run
/// between two of its uses.
constexpr int64_t minLayersBetween = 3;

/// The `reason` of reshards that split and gather saved activations.
constexpr llvm::StringLiteral activationsReason = "activations";

/// The layers that one block calls, for a micro-batch or a fragment, and the
/// uses of its values between them.
class LayerUses {
public:
  /// Collects the layers: the block's calls. Calls of later pieces of a tiled
  /// layer, whose path is an extension of the layer's path, do not count. Calls
  /// must not be added or removed afterwards.
  explicit LayerUses(mlir::Block &block);

  mlir::Block &block() const { return body; }

  /// The activations of the forward pass, in their order: values that are
  /// computed before the last layer that is called for the first time. Weights,
  /// and values computed only from weights, are not among them.
  llvm::SmallVector<mlir::Value> activations() const;

  /// Returns the operations of the block that use a value, in their order.
  llvm::SmallVector<mlir::Operation *> users(mlir::Value value) const;

  /// Returns the operation that computes a value and its users, in groups: a
  /// new group begins where `minLayersBetween` layers or more run between two
  /// uses.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>>
  uses(mlir::Value value) const;

  /// Returns the last layer that runs before the operation, or null.
  mlir::Operation *layerBefore(mlir::Operation *op) const;

  /// Sets the insertion point for the transfer of a value that `use` reads:
  /// before the layer that precedes `use`, or, without one, after the operation
  /// `made`, or, if that is null, at the beginning of the block.
  void setBeforeUse(mlir::OpBuilder &builder, mlir::Operation *use,
                    mlir::Operation *made) const;

private:
  int64_t between(mlir::Operation *first, mlir::Operation *second) const;

  mlir::Block &body;
  llvm::SmallVector<mlir::Operation *> calls;
  /// The number of layers before each operation.
  llvm::DenseMap<mlir::Operation *, int64_t> numBefore;
};

/// Returns the blocks of a training step that have saved activations: those of
/// micro-batches and of fragments.
llvm::SmallVector<mlir::Block *> waitingBlocks(nn::StepOp step);

/// Returns the states whose slots hold activations for later fragments. States
/// whose values are sent to another stage are not among them: they are sent
/// from their slots.
llvm::StringSet<> savedSlots(nn::ModelOp model);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H
