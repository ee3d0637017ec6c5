//===- Update.h - The part of a step outside of its fragments ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H

#include "Fragments.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include <array>

namespace heddle::pipe {

/// A bucket of the whole model as one stage has it: `own` with the parameters
/// that the stage has, `copies` with those among them that another stage has
/// too and that count there. Null: without members.
struct StageBucket {
  nn::BucketOp own, copies;
  nn::BucketOp operator[](int number) const { return number ? copies : own; }
};
using StageBuckets = llvm::StringMap<StageBucket>;

/// The parameter that a state belongs to, or is.
mlir::StringAttr parameterOf(nn::StateOp state);

/// Cuts a model's buckets down to the parameters for which `has` is true. What
/// is split over `replicas` ranks is padded to equal parts for them. `symbols`
/// has the members of the buckets as they were.
StageBuckets cutBuckets(nn::ModelOp model, const mlir::SymbolTable &symbols,
                        llvm::function_ref<bool(mlir::StringAttr)> has,
                        llvm::function_ref<bool(mlir::StringAttr)> isCopy,
                        int64_t replicas);

/// Unreduced along `pipe` too.
dist::TensorShardingAttr sumOverStages(dist::TensorShardingAttr sharding);

/// Writes what a step does before and after its micro-batches, for one stage:
/// whole buckets become the stage's, and the norm becomes a sum over stages.
class UpdateWriter {
public:
  UpdateWriter(mlir::OpBuilder &builder, const StageBuckets &buckets,
               const mlir::IRMapping &mapping)
      : builder(builder), buckets(buckets), mapping(mapping) {}

  void write(mlir::Operation &op);

private:
  /// What became of a flat value: of `own` buckets and of `copies`.
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

/// Adds up the parts of a gradient that several stages made, alike on all of
/// them: each adds its part to what the next one with a part sends, and the
/// first hands the sum back. `rank` is the place along `pipe` of the stage that
/// is written.
void addUpShared(mlir::OpBuilder &builder, nn::ModelOp stage,
                 const SharedSum &sum, int64_t rank);

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_UPDATE_H
