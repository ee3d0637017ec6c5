//===- Schedule.cpp - Assigns layers to stages ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "heddle/Transforms/Pipe/Cut.h"
#include "heddle/Transforms/Pipe/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_PIPESCHEDULE
#include "include/heddle/Transforms/Pipe/Passes.h.inc"
} // namespace heddle

namespace {

/// The calls of all layers, in the order of their forward passes.
struct Layers {
  llvm::SetVector<StringAttr> paths;
  pipe::LayerCosts costs;
};

struct SchedulePass : heddle::impl::PipeScheduleBase<SchedulePass> {
  void runOnOperation() override {
    // Several train programs have one schedule, because each stage has the same
    // parameters in all of them. The one with the most layers decides.
    nn::ModelOp model = getOperation();
    SmallVector<std::pair<nn::StepOp, Layers>> programs;
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train)
        programs.push_back({step, measure(model, step)});
    if (programs.empty())
      return;
    auto &[longest, layers] =
        *llvm::max_element(programs, [](auto &a, auto &b) {
          return a.second.paths.size() < b.second.paths.size();
        });
    for (auto &[step, own] : programs)
      for (StringAttr path : own.paths)
        if (!layers.paths.contains(path)) {
          step.emitError("H0119: calls the layer ")
              << path << ", but @" << longest.getSymName()
              << ", which has more layers, does not; the train programs of a "
                 "model must agree on the layers of each pipeline stage";
          return signalPassFailure();
        }
    if (failed(schedule(model, longest, layers)))
      signalPassFailure();
  }

private:
  /// Counts the floating-point operations of an operation. A call counts as
  /// much as the function that it calls. The count of a function is computed
  /// only once.
  class Arithmetic {
  public:
    explicit Arithmetic(nn::ModelOp model) : symbols(model) {}

    double of(Operation *op) {
      if (auto cost = dyn_cast<nn::CostOpInterface>(op))
        return cost.getFlops();
      auto call = dyn_cast<nn::CallOp>(op);
      if (!call)
        return 0;
      auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
      if (auto known = functions.find(callee); known != functions.end())
        return known->second;
      double flops = 0;
      for (Operation &inner : callee.getBody().getOps())
        flops += of(&inner);
      return functions[callee] = flops;
    }

  private:
    SymbolTable symbols;
    DenseMap<Operation *, double> functions;
  };

  /// Measures the cost of each layer for one micro-batch, forward and backward.
  /// The cost of an operation outside of layers is added to the layer before
  /// it, with two exceptions: the cost of the head is added to the last stage,
  /// and the cost of the embedding's gradient to the first stage.
  static Layers measure(nn::ModelOp model, nn::StepOp step) {
    Layers result;
    Block *body = &step.getBody().front();
    for (auto loop : step.getBody().getOps<nn::MicroBatchesOp>())
      body = &loop.getBody().front();
    for (auto call : body->getOps<nn::CallOp>())
      result.paths.insert(call.getPathAttr());
    auto &[layers, first, last] = result.costs;
    layers.resize(result.paths.size());
    Arithmetic arithmetic(model);
    size_t begun = 0;
    double *cost = &first;
    for (Operation &op : *body) {
      double flops = arithmetic.of(&op);
      auto call = dyn_cast<nn::CallOp>(op);
      if (!call) {
        *cost += flops;
        continue;
      }
      size_t layer =
          llvm::find(result.paths, call.getPathAttr()) - result.paths.begin();
      layers[layer] += flops;
      bool forward = layer == begun;
      begun += forward;
      cost = forward && begun == layers.size() ? &last
             : !forward && layer == 0          ? &first
                                               : &layers[layer];
    }
    return result;
  }

  /// Decides how many layers each virtual stage gets. The user's
  /// --pipeline-layout decides if it is given, otherwise the costs of the
  /// layers do.
  static FailureOr<pipe::Cut> cut(nn::StepOp step,
                                  const dist::Strategy &strategy,
                                  const pipe::LayerCosts &costs) {
    int64_t stages = strategy.pipe * strategy.virtualStages;
    int64_t layers = costs.layers.size();
    bool possible = stages == 1 || layers >= stages;
    std::string why, help;
    if (!strategy.pipelineLayout.empty()) {
      auto cut = pipe::readCut(strategy.pipelineLayout, layers, stages, why);
      if (cut)
        return *cut;
      why = "pipeline_layout \"" + strategy.pipelineLayout + "\" " + why;
      if (possible)
        help = "write \"" + pipe::printCut(pipe::cutByCost(costs, stages)) +
               "\", or leave it out";
    } else if (!possible) {
      why = std::to_string(stages) + " stages (" +
            std::to_string(strategy.pipe) + " ranks along pipe, " +
            std::to_string(strategy.virtualStages) + " for each) for " +
            std::to_string(layers) + " layers";
      help = "at most " + std::to_string(layers) + " are possible";
    } else {
      return pipe::cutByCost(costs, stages);
    }
    InFlightDiagnostic error = step.emitError("H0119: ") << why;
    if (!help.empty())
      error.attachNote() << "help: " << help;
    return error;
  }

  LogicalResult schedule(nn::ModelOp model, nn::StepOp step,
                         const Layers &layers) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    std::string why;
    auto made =
        pipe::makeSchedule(wordOf(strategy.schedule), strategy.pipe,
                           strategy.accumulate, strategy.virtualStages, why);
    if (!made)
      return step.emitError("H0111: ") << why;
    FailureOr<pipe::Cut> counts = cut(step, strategy, layers.costs);
    if (failed(counts))
      return failure();
    OpBuilder builder(step);
    ArrayRef<StringAttr> rest = layers.paths.getArrayRef();
    for (auto [index, count] : llvm::enumerate(*counts)) {
      SmallVector<Attribute> calls(rest.take_front(count));
      rest = rest.drop_front(count);
      builder.create<pipe::StageOp>(step.getLoc(),
                                    ("stage" + Twine(index)).str(), index,
                                    builder.getArrayAttr(calls));
    }
    SmallVector<pipe::LineAttr> lines;
    for (const pipe::Line &line : *made)
      lines.push_back(pipe::LineAttr::get(model.getContext(), line));
    builder.create<pipe::ScheduleOp>(
        step.getLoc(), "schedule", strategy.accumulate,
        pipe::ScheduleAttr::get(model.getContext(), lines));
    return success();
  }
};

} // namespace
