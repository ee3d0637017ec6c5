//===- Verify.cpp - What the train phase promises -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/ProgramPorts.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Train/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINVERIFY
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : VerifyPass<heddle::impl::TrainVerifyBase, Verify> {
  LogicalResult verify(nn::ModelOp model) {
    for (auto function : model.getOps<nn::FuncOp>())
      if (function.getProgram())
        return function.emitError(
            "H0909: a program is left that is no step yet");
    if (failed(verifyGradients(model)))
      return failure();
    if (failed(verifyStates(model, "H0909")))
      return failure();
    strategy = model.getStrategy().getValue();
    symbols.emplace(model);
    llvm::SmallDenseSet<nn::ProgramKind> kinds;
    for (auto step : model.getOps<nn::StepOp>()) {
      if (!kinds.insert(step.getKind()).second && hasLoop(step) &&
          !step.getPhase())
        return step.emitError("H0909: is a second step of the kind \"")
               << stringifyProgramKind(step.getKind()) << "\"";
      if (failed(verifyPorts(step, "H0909")) || failed(verifyLoops(step)) ||
          (step.getKind() == nn::ProgramKind::Train &&
           failed(verifyTraining(model, step))))
        return failure();
    }
    return success();
  }

  /// Whether the step computes a loss in a loop over micro-batches.
  static bool hasLoop(nn::StepOp step) {
    return step.getKind() == nn::ProgramKind::Train ||
           step.getKind() == nn::ProgramKind::Eval;
  }

  /// Checks that the step has at most one loop over micro-batches, which runs
  /// once for each of the micro-batches that the user set.
  LogicalResult verifyLoops(nn::StepOp step) {
    int64_t count =
        step.getKind() == nn::ProgramKind::Train ? strategy.accumulate : 1;
    SmallVector<nn::MicroBatchesOp> loops;
    step.walk([&](nn::MicroBatchesOp loop) { loops.push_back(loop); });
    for (nn::MicroBatchesOp loop : loops) {
      if (loop->getParentOp() != step || loops.size() > 1)
        return loop.emitError("H0909: a step has one loop over micro-batches");
      if (static_cast<int64_t>(loop.getCount()) != count)
        return loop.emitError("H0909: runs ")
               << loop.getCount() << " times; there are " << count
               << " micro-batches";
    }
    if (loops.empty() && hasLoop(step))
      return step.emitError("H0909: has no loop over micro-batches");
    return verifyEach<nn::MicroBatchOp>(
        step, [&](nn::MicroBatchOp slice) -> LogicalResult {
          if (slice->getParentOp() == loops.front() &&
              slice.getInput().getParentBlock() == &step.getBody().front())
            return success();
          return slice.emitError("H0909: is no part of an input");
        });
  }

  /// Checks that each trainable parameter gets a gradient from a train program.
  LogicalResult verifyGradients(nn::ModelOp model) {
    llvm::StringSet<> written;
    bool trains = false;
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train) {
        trains = true;
        step.walk([&](nn::SetOp set) {
          if (!set.getValue().getDefiningOp<nn::FillOp>())
            written.insert(set.getState());
        });
      }
    if (!trains)
      return success();
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == nn::StateRole::Parameter && state.getTrainable() &&
          !written.contains((state.getSymName() + ".grad").str()))
        return state.emitError("H0909: trainable, but it gets no gradient: the "
                               "loss does not depend on it");
    return success();
  }

  /// Checks that gradients are written inside of the loop over micro-batches,
  /// and that only the optimizer reads the buckets of gradients.
  LogicalResult verifyTraining(nn::ModelOp model, nn::StepOp step) {
    if (step.getBody().getOps<nn::UpdateOp>().empty())
      return step.emitError("H0909: updates no parameter");
    auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
    auto verifySet = [&](nn::SetOp set) -> LogicalResult {
      auto state = symbols->lookup<nn::StateOp>(set.getState());
      if (!state || state.getRole() != nn::StateRole::Gradient)
        return success();
      Operation *definition = set.getValue().getDefiningOp();
      if (definition && definition->getBlock() == &loop.getBody().front() &&
          set->getBlock() == definition->getBlock())
        return success();
      return set.emitError(
          "H0909: writes a gradient that no operation of the loop computes");
    };
    if (failed(verifyEach<nn::SetOp>(step, verifySet)))
      return failure();
    SmallVector<nn::GlobalNormOp> norms(
        step.getBody().getOps<nn::GlobalNormOp>());
    if (norms.size() != 1)
      return step.emitError("H0909: has ")
             << norms.size() << " norms of the gradients; one is right";
    return verifyEach<Operation *>(
        step, [&](Operation *op) { return verifyBuckets(step, op); });
  }

  LogicalResult verifyBuckets(nn::StepOp step, Operation *op) {
    if (auto norm = dyn_cast<nn::GlobalNormOp>(op))
      for (Value input : norm.getInputs()) {
        auto get = input.getDefiningOp<nn::GetOp>();
        if (!get || !symbols->lookup<nn::BucketOp>(get.getState()))
          return norm.emitError("H0909: is not of buckets of gradients");
      }
    auto get = dyn_cast<nn::GetOp>(op);
    if (get && symbols->lookup<nn::BucketOp>(get.getState()))
      for (Operation *user : get->getUsers())
        if (!isa<nn::UpdateOp, nn::GlobalNormOp, nn::MapOp, nn::SegmentSumsOp,
                 nn::SignScalesOp, nn::ReadNumbersOp, nn::WriteNumbersOp,
                 nn::AverageOp>(user) ||
            user->getParentOp() != step)
          return user->emitError("H0909: reads the bucket @")
                 << get.getState() << ", which is the optimizer's";
    auto set = dyn_cast<nn::SetOp>(op);
    if (set && symbols->lookup<nn::BucketOp>(set.getState()) &&
        !set.getValue().getDefiningOp<nn::UpdateOp>() &&
        !set.getValue().getDefiningOp<nn::AverageOp>() &&
        !set.getValue().getDefiningOp<nn::WriteNumbersOp>() &&
        !set.getValue().getDefiningOp<nn::FakeQuantizeOp>() &&
        !set.getValue().getDefiningOp<nn::FillOp>() && !isOfScalars(set))
      return set.emitError("H0909: writes the bucket @")
             << set.getState() << ", which is the optimizer's";
    return success();
  }

  /// Whether `set` writes what the step computes before its first micro-batch.
  bool isOfScalars(nn::SetOp set) {
    StringRef state = heddle::statesOf(*symbols, set.getState()).front();
    return symbols->lookup<nn::StateOp>(state).getRole() ==
           nn::StateRole::Scalar;
  }

  dist::Strategy strategy;
  std::optional<SymbolTable> symbols; ///< The model's symbols.
};

} // namespace
