//===- OwnStates.h - What each replica has by itself ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// States and values with which replicas of parameters differ, in a rank's own
// program. Used by the pass spmd-expand-averages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_OWNSTATES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_OWNSTATES_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/NN/NNDialect.h"

namespace heddle::spmd {

/// The mesh axes along which ranks are replicas.
llvm::SmallVector<mlir::Attribute> replicaAxes(dist::MeshOp mesh);

/// The mesh axes along which each rank has values of its own of what a bucket
/// is of: those along which ranks are replicas, or have other parts of it.
llvm::SmallVector<mlir::Attribute> ownersOf(nn::BucketOp bucket,
                                            dist::MeshOp mesh);

/// The name in `model` of a state of each rank's own: each stage has another.
std::string nameOfOwn(std::string name, nn::ModelOp model);

/// Adds a state of which each rank along `owners` has `type`. `copies` is the
/// number of these ranks.
nn::StateOp addOwnState(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::StringRef name, mlir::RankedTensorType type,
                        llvm::ArrayRef<mlir::Attribute> owners, int64_t copies);

/// Makes one state of each bucket of states that are held as `local`, with what
/// all ranks have, so that a checkpoint has the values of all.
void keepLocalStates(nn::ModelOp model, dist::MeshOp mesh);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_OWNSTATES_H
