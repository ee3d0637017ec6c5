//===- Update.h - Updates, norms and shared gradients -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes what a pipeline stage's step does after its backward passes: the
// optimizer's update, the gradient norm over all stages, and the sums of
// gradients that several stages compute.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H

#include "Fragments.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include <array>

namespace heddle::pipe {

/// The buckets of a stage that replace one bucket of the whole model. A stage
/// has only some of that bucket's parameters. `own` has the parameters whose
/// sums of squares this stage adds to the gradient norm. `copies` has
/// parameters that another stage has, too, and whose sums of squares the other
/// stage adds. A bucket without parameters is null.
struct StageBucket {
  nn::BucketOp own, copies;
  nn::BucketOp operator[](int number) const { return number ? copies : own; }
};
using StageBuckets = llvm::StringMap<StageBucket>;

/// The name of the parameter that a state belongs to. If the state is itself a
/// parameter, this is the state's name.
mlir::StringAttr parameterOf(nn::StateOp state);

/// Replaces the buckets of a stage's model by buckets of only those parameters
/// for which `has` returns true. A bucket that is split over `replicas` ranks
/// is padded, so that the parts of all ranks have equal length. `symbols` is
/// the symbol table from before this change.
StageBuckets cutBuckets(nn::ModelOp model, const mlir::SymbolTable &symbols,
                        llvm::function_ref<bool(mlir::StringAttr)> has,
                        llvm::function_ref<bool(mlir::StringAttr)> isCopy,
                        int64_t replicas);

/// Returns `sharding` as a partial sum over the mesh axis `pipe`, in addition
/// to the mesh axes over which it already is a partial sum.
dist::TensorShardingAttr sumOverStages(dist::TensorShardingAttr sharding);

/// Writes, for one stage, what a step does before and after its micro-batches.
/// Operations on buckets of the whole model become operations on the stage's
/// buckets, and the gradient norm is summed over stages.
class UpdateWriter {
public:
  UpdateWriter(mlir::OpBuilder &builder, const StageBuckets &buckets,
               const mlir::IRMapping &mapping)
      : builder(builder), buckets(buckets), mapping(mapping) {}

  void write(mlir::Operation &op);

private:
  /// The two values of the stage that replace a value of the whole model with
  /// the elements of a bucket. The first value is for the parameters whose sums
  /// of squares this stage adds to the gradient norm (StageBucket::own). The
  /// second is for those that another stage adds (StageBucket::copies).
  using Flat = std::array<mlir::Value, 2>;

  const StageBucket *bucketOf(mlir::Operation &op) const;
  void writeFlat(mlir::Operation &op, const StageBucket *bucket);
  void writePack(nn::PackOp pack);
  void writeNorm(nn::GlobalNormOp norm);
  mlir::Value pack(mlir::Location loc, llvm::ArrayRef<mlir::Value> sums);
  mlir::Value total(mlir::Location loc, mlir::Value packed,
                    mlir::ArrayAttr unreduced);

  mlir::OpBuilder &builder;
  const StageBuckets &buckets;
  mlir::IRMapping mapping;
  llvm::DenseMap<mlir::Value, Flat> flats;
};

/// Adds up a gradient of which several stages have computed a summand each.
/// Each stage adds its summand to the sum that it receives from the next of
/// these stages, and sends the result to the previous one. The first stage
/// sends the total back, so that all these stages have the same value. `rank`
/// is the stage's coordinate along the mesh axis `pipe`.
void addUpShared(mlir::OpBuilder &builder, nn::ModelOp stage,
                 const SharedSum &sum, int64_t rank);

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H
