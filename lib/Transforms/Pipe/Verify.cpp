//===- Verify.cpp - What the pipe phase promises --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "heddle/Transforms/Pipe/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_PIPEVERIFY
#include "include/heddle/Transforms/Pipe/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : heddle::impl::PipeVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      for (auto step : model.getOps<nn::StepOp>())
        if (step.getKind() == "train" && failed(verify(model, step)))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(nn::ModelOp model, nn::StepOp step) {
    auto schedule = model.lookupSymbol<pipe::ScheduleOp>("schedule");
    if (!schedule)
      return step.emitError("H0905: the training step has no schedule");
    llvm::DenseMap<Attribute, int> staged;
    int64_t stages = 0;
    for (auto stage : model.getOps<pipe::StageOp>()) {
      if (static_cast<int64_t>(stage.getIndex()) != stages)
        return stage.emitError("H0905: stands in place ") << stages;
      ++stages;
      for (Attribute path : stage.getCalls())
        ++staged[path];
    }
    pipe::Schedule lines;
    for (auto line : schedule.getStages().getAsValueRange<StringAttr>())
      lines.push_back(*pipe::parseStage(line));
    int64_t chunks = pipe::chunksOf(lines), count = lines.size();
    if (count * chunks != stages)
      return schedule.emitError("H0905: has ")
             << count << " lines of " << chunks << " chunks for " << stages
             << " stages";
    WalkResult walk = step.walk([&](Operation *op) {
      if (auto loop = dyn_cast<nn::MicroBatchesOp>(op);
          loop && loop.getCount() != schedule.getMicroBatches()) {
        op->emitError("H0905: runs ")
            << loop.getCount() << " micro-batches, the schedule "
            << schedule.getMicroBatches();
        return WalkResult::interrupt();
      }
      auto call = dyn_cast<nn::CallOp>(op);
      if (!call || staged.lookup(call.getPathAttr()) == 1)
        return WalkResult::advance();
      call.emitError("H0905: is in ")
          << staged.lookup(call.getPathAttr()) << " stages; one is right";
      return WalkResult::interrupt();
    });
    return failure(walk.wasInterrupted());
  }
};

} // namespace
