//===- StageWriter.h - Writes the model of one stage ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives from the whole model the part that one rank along the mesh axis
// `pipe` runs. Used by the pass pipe-split.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_STAGEWRITER_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_STAGEWRITER_H

#include "Fragments.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Pipe/Schedule.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <deque>
#include <memory>

namespace heddle::pipe {

struct StageBucket;

/// How one step of the whole model is cut into fragments (forward or backward
/// passes of a stage).
struct StepPlan {
  nn::StepOp step;
  nn::MicroBatchesOp loop; ///< Null: the step runs once through all stages.
  bool trains = false;
  std::unique_ptr<Fragments> fragments;
  std::unique_ptr<Routes> routes;
};

/// How the whole model is cut into stages.
struct ModelPlan {
  explicit ModelPlan(nn::ModelOp model) : model(model), symbols(model) {}

  nn::ModelOp model;
  mlir::SymbolTable symbols;
  FragmentNumbering numbering;
  Schedule schedule;
  /// The number of ranks along the mesh axes `data` and `seq` together.
  int64_t replicas = 1;
  /// The virtual stage of each layer. The key is the layer's path.
  llvm::DenseMap<mlir::Attribute, int64_t> stages;
  SavedStates saved;
  std::deque<StepPlan> steps;

  /// The stages that compute summands of a parameter's gradient. Null if at
  /// most one stage does.
  const SharedSum *sharedSum(mlir::StringAttr parameter) const;
};

/// Writes the model of one rank along the mesh axis `pipe`.
class StageWriter {
public:
  StageWriter(const ModelPlan &plan, int64_t rank) : plan(plan), rank(rank) {}

  /// Creates the model, with the fragments (forward and backward passes) of
  /// this stage as the bodies of its steps.
  void writeFragments();
  /// The parameters that the stage's forward and backward passes read.
  const llvm::SetVector<mlir::StringAttr> &parameters() const { return owned; }
  /// Writes what steps do before and after their fragments (forward and
  /// backward passes), and copies the states and functions that this stage
  /// needs.
  void finish();

  unsigned numSent = 0, numSaved = 0;

private:
  void addSlots(const StepPlan &step);
  nn::StepOp writeStep(const StepPlan &step);
  void writeLoop(mlir::OpBuilder &builder, const StepPlan &step,
                 const mlir::IRMapping &mapping);
  llvm::SmallVector<mlir::Value> writeInline(mlir::OpBuilder &builder,
                                             const StepPlan &step,
                                             const mlir::IRMapping &mapping);
  mlir::Block::iterator endOfStates();
  LineAttr lineOf(const StepPlan &step) const;
  void findParameters();
  void copyRest();
  void sumAccumulators();
  void writeUpdate(const StepPlan &plan, nn::StepOp step,
                   const llvm::StringMap<StageBucket> &buckets);
  void sumResults(nn::StepOp step);
  void dropPorts(nn::StepOp step, llvm::ArrayRef<unsigned> results);
  void dropUnused();

  const ModelPlan &plan;
  int64_t rank;
  nn::ModelOp stage;
  /// For each chunk (virtual stage of this rank), the number of slots: the most
  /// micro-batches whose activations must be saved at the same time.
  llvm::SmallVector<int64_t> slots;
  /// The stage's steps, in the order of `plan.steps`.
  llvm::SmallVector<nn::StepOp> steps;
  llvm::SetVector<mlir::StringAttr> owned;
};

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_STAGEWRITER_H
