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

/// An activation is split or offloaded between two of its uses if at least this
/// many layers run between them.
constexpr int64_t minLayersBetween = 3;

/// The attribute `reason` of the reshards that split saved activations and
/// gather them again.
constexpr llvm::StringLiteral activationsReason = "activations";

/// The calls of layers in one MLIR block, and the uses of values before,
/// between and after these calls. The MLIR block is the body of a loop over
/// micro-batches, or of a pipeline stage's forward or backward pass.
class LayerUses {
public:
  /// Collects the calls of layers. If a layer has a product that is computed in
  /// tiles, several calls compute the layer. Then only the first call counts;
  /// the others have longer paths, such as h.0.1 in the layer h.0. No calls may
  /// be added or removed while this object exists.
  explicit LayerUses(mlir::Block &block);

  mlir::Block &block() const { return body; }

  /// Returns the activations of the forward pass in order. These are all values
  /// that are computed before the backward pass, except weights and values that
  /// depend on nothing but weights.
  llvm::SmallVector<mlir::Value> activations() const;

  /// Returns the operations of the MLIR block that use a value, in their order.
  llvm::SmallVector<mlir::Operation *> users(mlir::Value value) const;

  /// Returns the operations that compute or use a value, in groups. If at least
  /// `minLayersBetween` layers run between an operation and the next one, the
  /// next one begins a new group.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>>
  uses(mlir::Value value) const;

  /// Returns the last layer that runs before the operation, or null.
  mlir::Operation *layerBefore(mlir::Operation *op) const;

  /// Sets the insertion point for the transfer of a value that `use` reads. It
  /// is before the layer that precedes `use`. If no layer does, it is after
  /// `made`, the last operation on which the transfer depends. If `made` is
  /// null too, it is at the beginning of the MLIR block.
  void setBeforeUse(mlir::OpBuilder &builder, mlir::Operation *use,
                    mlir::Operation *made) const;

private:
  int64_t between(mlir::Operation *first, mlir::Operation *second) const;

  mlir::Block &body;
  llvm::SmallVector<mlir::Operation *> calls;
  /// The number of layers before each operation.
  llvm::DenseMap<mlir::Operation *, int64_t> numBefore;
};

/// Returns the MLIR blocks of a training step that save activations for the
/// backward pass: the bodies of loops over micro-batches, and of forward and
/// backward passes of a pipeline stage.
llvm::SmallVector<mlir::Block *> waitingBlocks(nn::StepOp step);

/// Returns the states that hold activations between the forward and the
/// backward pass of a pipeline stage, with one entry (slot) for each
/// micro-batch in flight. A state is left out if values are sent from its slots
/// to other stages.
llvm::StringSet<> savedSlots(nn::ModelOp model);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERUSES_H
