//===- Schedule.cpp - Stages and their schedule ---------------------------===//
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
#define GEN_PASS_DEF_PIPESCHEDULE
#include "include/heddle/Transforms/Pipe/Passes.h.inc"
} // namespace heddle

namespace {

struct SchedulePass : heddle::impl::PipeScheduleBase<SchedulePass> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      for (auto step : model.getOps<nn::StepOp>())
        if (step.getKind() == "train" && failed(schedule(model, step)))
          return signalPassFailure();
  }

private:
  /// The instances of the forward pass, in order, each with its arithmetic.
  SmallVector<std::pair<StringAttr, double>> instances(nn::ModelOp model,
                                                       nn::StepOp step) {
    SmallVector<std::pair<StringAttr, double>> result;
    llvm::DenseSet<StringAttr> seen;
    step.walk([&](nn::CallOp call) {
      if (!seen.insert(call.getPathAttr()).second)
        return;
      double flops = 0;
      model.lookupSymbol<nn::FuncOp>(call.getCalleeAttr())
          .walk([&](nn::CostOpInterface op) { flops += op.getFlops(); });
      result.push_back({call.getPathAttr(), flops});
    });
    return result;
  }

  LogicalResult schedule(nn::ModelOp model, nn::StepOp step) {
    auto strategy =
        dist::Strategy::fromDictionary(model.getStrategy().getValues());
    auto layers = instances(model, step);
    double total = 0;
    for (auto &[path, flops] : layers)
      total += flops;
    SmallVector<SmallVector<Attribute>> stages(strategy.pipe);
    double before = 0;
    for (auto &[path, flops] : layers) {
      // The stage in which the middle of the layer's arithmetic falls.
      auto stage = static_cast<int64_t>((before + flops / 2) / total *
                                        static_cast<double>(strategy.pipe));
      stages[std::min(stage, strategy.pipe - 1)].push_back(path);
      before += flops;
    }
    auto made = pipe::makeSchedule(strategy.schedule, strategy.pipe,
                                   strategy.accumulate);
    if (!made)
      return step.emitError("H0111: unknown schedule \"")
             << strategy.schedule << "\"; known are gpipe, 1f1b";
    OpBuilder builder(step);
    SmallVector<Attribute> lines;
    for (auto [index, stage] : llvm::enumerate(stages)) {
      builder.create<pipe::StageOp>(step.getLoc(),
                                    ("stage" + Twine(index)).str(), index,
                                    builder.getArrayAttr(stage));
      std::string line;
      for (const pipe::Action &action : (*made)[index])
        line += (line.empty() ? "" : " ") + action.str();
      lines.push_back(builder.getStringAttr(line));
    }
    builder.create<pipe::ScheduleOp>(step.getLoc(), "schedule",
                                     strategy.schedule, strategy.accumulate,
                                     builder.getArrayAttr(lines));
    return success();
  }
};

} // namespace
