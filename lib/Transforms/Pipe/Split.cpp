//===- Split.cpp - One model for each pipeline stage ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Halves.h"
#include "StageWriter.h"
#include "heddle/Transforms/Pipe/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::pipe;

namespace heddle {
#define GEN_PASS_DEF_PIPESPLIT
#include "include/heddle/Transforms/Pipe/Passes.h.inc"
} // namespace heddle

namespace {

struct Split : heddle::impl::PipeSplitBase<Split> {
  void runOnOperation() override {
    for (auto model :
         llvm::make_early_inc_range(getOperation().getOps<nn::ModelOp>())) {
      auto mesh = model.lookupSymbol<dist::MeshOp>("mesh");
      if (mesh && mesh.getSize(dist::AxisRole::Pipeline) > 1 &&
          !model.getStage() && failed(split(model, mesh)))
        return signalPassFailure();
    }
  }

private:
  LogicalResult readSchedule(ModelPlan &plan, dist::MeshOp mesh) {
    auto schedule = plan.symbols.lookup<ScheduleOp>("schedule");
    if (!schedule)
      return plan.model.emitError("H0905: the model has no schedule");
    bool whole = false;
    for (LineAttr line : schedule.getStages().getLines()) {
      plan.schedule.push_back(line.getActions());
      for (const Action &action : plan.schedule.back()) {
        whole |= action.kind == Action::Kind::Backward;
        plan.numbering.halves |= action.kind == Action::Kind::BackwardInput;
      }
    }
    plan.numbering.ranks = mesh.getSize(dist::AxisRole::Pipeline);
    plan.numbering.chunks = chunksOf(plan.schedule);
    if (plan.numbering.halves && (whole || plan.numbering.chunks > 1))
      return schedule.emitError("H0202: backward passes in halves need all of "
                                "them so, and one chunk for each stage");
    plan.replicas = mesh.getSize(dist::AxisRole::Data) *
                    mesh.getSize(dist::AxisRole::Sequence);
    for (auto stage : plan.model.getOps<StageOp>())
      for (Attribute path : stage.getCalls())
        plan.stages[path] = stage.getIndex();
    return success();
  }

  LogicalResult planStep(ModelPlan &plan, nn::StepOp step) {
    StepPlan &cut = plan.steps.emplace_back();
    cut.step = step;
    cut.trains = step.getKind() == nn::ProgramKind::Train;
    Block *body = &step.getBody().front();
    for (auto loop : step.getBody().getOps<nn::MicroBatchesOp>()) {
      cut.loop = loop;
      body = &loop.getBody().front();
    }
    if (cut.trains && plan.numbering.halves)
      splitBackward(plan.symbols, *body);
    cut.fragments = std::make_unique<Fragments>(
        *body, plan.numbering, plan.symbols, plan.stages, cut.trains);
    if (failed(cut.fragments->assign()))
      return failure();
    plan.saved.beginProgram();
    cut.routes = std::make_unique<Routes>(*cut.fragments,
                                          cut.trains ? &plan.saved : nullptr);
    return success();
  }

  /// Whether the same stages make a parameter's gradient in all train programs.
  static bool isSharedInAll(const ModelPlan &plan, StringAttr parameter,
                            const SharedSum &sum) {
    return llvm::all_of(plan.steps, [&](const StepPlan &step) {
      if (!step.trains)
        return true;
      const auto &own = step.fragments->sharedSums();
      auto found = own.find(parameter);
      return found != own.end() && found->second.ranks == sum.ranks;
    });
  }

  /// Checks a trainable parameter that several stages read: all of them must
  /// contribute to its gradient. Otherwise the copies of the parameter on the
  /// stages would be updated differently.
  LogicalResult checkShared(const ModelPlan &plan,
                            ArrayRef<StageWriter> stages) {
    nn::ModelOp model = plan.model;
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != nn::StateRole::Parameter || !state.getTrainable())
        continue;
      SmallVector<int64_t> users;
      for (auto [rank, stage] : llvm::enumerate(stages))
        if (stage.parameters().contains(state.getSymNameAttr()))
          users.push_back(rank);
      const SharedSum *sum = plan.sharedSum(state.getSymNameAttr());
      if (users.size() > 1 && (!sum || users != sum->ranks))
        return state.emitError("H0202: stages ")
               << users[0] << " and " << users.back()
               << " read this parameter, but do not all make its gradient";
      if (sum && !isSharedInAll(plan, state.getSymNameAttr(), *sum))
        return state.emitError("H0202: several stages read this parameter, and "
                               "the train programs do not all make its "
                               "gradient on the same stages");
    }
    return success();
  }

  LogicalResult split(nn::ModelOp model, dist::MeshOp mesh) {
    ModelPlan plan(model);
    if (failed(readSchedule(plan, mesh)))
      return failure();
    for (auto step : model.getOps<nn::StepOp>())
      if (failed(planStep(plan, step)))
        return failure();
    SmallVector<StageWriter> stages;
    for (int64_t rank = 0; rank < plan.numbering.ranks; ++rank)
      stages.emplace_back(plan, rank).writeFragments();
    if (failed(checkShared(plan, stages)))
      return failure();
    for (StageWriter &stage : stages) {
      stage.finish();
      numSent += stage.numSent;
      numSaved += stage.numSaved;
    }
    numStages += stages.size();
    model.erase();
    return success();
  }
};

} // namespace
