//===- LayerUses.h - Values that no layer uses for long ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::spmd {

/// Layers between two uses of a value for which it is kept otherwise than as a
/// whole in the device's memory.
constexpr int64_t minLayersBetween = 3;

/// The reason of exchanges of what ranks keep parts of (dist.reshard).
constexpr llvm::StringLiteral activationsReason = "activations";

/// The layers of a micro-batch or fragment, and which of its values wait for
/// the backward pass while others run.
class LayerUses {
public:
  /// The layers are the block's calls, but for those of a layer's later pieces,
  /// whose paths go on from the layer's; none may come or go later.
  explicit LayerUses(mlir::Block &block);

  mlir::Block &block() const { return body; }

  /// Of the forward pass, in their order: what is computed up to the last layer
  /// that runs for the first time. None of weights, and of what is made of them
  /// alone.
  llvm::SmallVector<mlir::Value> activations() const;

  /// The operations of the block that use a value, in their order.
  llvm::SmallVector<mlir::Operation *> users(mlir::Value value) const;

  /// What makes a value and what uses it, apart where `minLayersBetween` layers
  /// or more run between two uses.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>>
  uses(mlir::Value value) const;

  /// The layer that runs before the operation does, or null.
  mlir::Operation *layerBefore(mlir::Operation *op) const;

private:
  int64_t between(mlir::Operation *first, mlir::Operation *second) const;

  mlir::Block &body;
  llvm::SmallVector<mlir::Operation *> calls;
  /// Layers before each operation.
  llvm::DenseMap<mlir::Operation *, int64_t> numBefore;
};

/// The blocks of a training step whose values wait: of micro-batches, and of
/// fragments.
llvm::SmallVector<mlir::Block *> waitingBlocks(nn::StepOp step);

/// The states whose slots hold what fragments leave to later ones, without
/// those that are sent: these are sent from their slots.
llvm::StringSet<> savedSlots(nn::ModelOp model);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H
