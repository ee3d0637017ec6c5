//===- Differentiate.cpp - Reverse-mode differentiation of the step -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Differentiates the training step in reverse mode (Griewank and Walther,
// Evaluating Derivatives, chapter 3). Gradients are computed layer by layer on
// the whole model. This happens before anything is sharded, so that no
// collective must be differentiated.

#include "Reverse.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

namespace heddle {
#define GEN_PASS_DEF_TRAINDIFFERENTIATE
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct Differentiate : heddle::impl::TrainDifferentiateBase<Differentiate> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    auto isTrain = [](nn::StepOp step) {
      return step.getKind() == nn::ProgramKind::Train;
    };
    SmallVector<nn::StepOp> steps(
        llvm::make_filter_range(model.getOps<nn::StepOp>(), isTrain));
    if (!steps.empty()) {
      addGradientStates(model);
      // Steps that call the same layers share the functions of their forward
      // and backward passes.
      FunctionPairs pairs(model);
      DenseSet<const void *> trained; // The parameters that have a gradient.
      for (nn::StepOp step : steps)
        if (failed(differentiate(model, step, pairs, trained)))
          return signalPassFailure();
      numSaved += pairs.numSaved;
      freezeOthers(model, trained);
    }
    // Erase functions that only the original forward pass called. The
    // differentiated program calls other functions in their place.
    eraseUncalled(model);
  }

private:
  /// The trainable parameter from which a value is read, either directly or
  /// through a copy. Null if the value is not read from such a parameter.
  nn::StateOp parameterOf(const SymbolTable &symbols, Value value) {
    auto get = value.getDefiningOp<nn::GetOp>();
    auto state =
        get ? symbols.lookup<nn::StateOp>(get.getState()) : nn::StateOp();
    if (state && state.isCopy())
      state = symbols.lookup<nn::StateOp>(*state.getParameter());
    if (!state || state.getRole() != nn::StateRole::Parameter ||
        !state.getTrainable())
      return {};
    return state;
  }

  std::string gradientName(nn::StateOp parameter) {
    return (parameter.getSymName() + ".grad").str();
  }

  void addGradientStates(nn::ModelOp model) {
    OpBuilder builder(&getContext());
    for (auto state : llvm::make_early_inc_range(model.getOps<nn::StateOp>())) {
      if (state.getRole() != nn::StateRole::Parameter || !state.getTrainable())
        continue;
      builder.setInsertionPointAfter(state);
      auto gradient = builder.create<nn::StateOp>(
          state.getLoc(), gradientName(state), nn::StateRole::Gradient,
          nn::gradientType(state.getType()), state.getSymName());
      gradient.setDecays(state.getDecays());
    }
  }

  /// Freezes the parameters on which no loss depends, those that are not in
  /// `trained`. They have no gradient, and then need no optimizer states.
  void freezeOthers(nn::ModelOp model, const DenseSet<const void *> &trained) {
    SymbolTable symbols(model);
    SmallVector<nn::StateOp> states(model.getOps<nn::StateOp>());
    for (nn::StateOp state : states) {
      if (state.getRole() != nn::StateRole::Parameter ||
          !state.getTrainable() || trained.contains(state.getOperation()))
        continue;
      state.emitWarning("the loss does not depend on @")
          << state.getSymName() << ": it is not trained";
      state.setTrainable(false);
      symbols.lookup(gradientName(state))->erase();
    }
  }

  /// Moves the sums that compute the step's loss to the end of the micro-batch,
  /// so that they do not separate operations that could share a kernel. Returns
  /// the sums from first to last. The list is empty if the loss is not a chain
  /// of sums.
  SmallVector<nn::SumOp> moveLosses(nn::StepOp step, Block &body) {
    SmallVector<nn::SumOp> sums;
    Value loss =
        nn::portOf(step.getOutputs(),
                   step.getBody().front().getTerminator()->getOperands(),
                   nn::PortRole::Loss);
    auto read = loss ? loss.getDefiningOp<nn::GetOp>() : nn::GetOp();
    auto sets = body.getOps<nn::SetOp>();
    auto set = llvm::find_if(sets, [&](nn::SetOp set) {
      return read && set.getState() == read.getState();
    });
    if (set == sets.end())
      return sums;
    SmallVector<Operation *> last = {*set};
    Value value = (*set).getValue();
    while (auto sum = value.getDefiningOp<nn::SumOp>()) {
      if (!sum.getWeights() || !sum.getInit())
        return {};
      sums.push_back(sum);
      last.push_back(sum);
      value = sum.getInit();
    }
    auto before = value.getDefiningOp<nn::GetOp>();
    if (!before)
      return {};
    last.push_back(before);
    for (Operation *op : llvm::reverse(last))
      op->moveBefore(body.getTerminator());
    std::reverse(sums.begin(), sums.end());
    return sums;
  }

  /// Adds the backward pass to a step. Adds the parameters that get a gradient
  /// to `trained`.
  LogicalResult differentiate(nn::ModelOp model, nn::StepOp step,
                              FunctionPairs &pairs,
                              DenseSet<const void *> &trained) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
    Block &body = loop.getBody().front();
    SmallVector<nn::SumOp> losses = moveLosses(step, body);
    if (losses.empty())
      return step.emitError("H0909: adds no losses to its loss");
    OpBuilder builder(losses.front().getInit().getDefiningOp());
    SymbolTable symbols(model);
    auto keyOf = [&](Value value) -> Reverse::Key {
      nn::StateOp state = parameterOf(symbols, value);
      return state ? state.getOperation() : nullptr;
    };
    auto readGradient = [&](Value parameter) -> Value {
      nn::StateOp state = parameterOf(symbols, parameter);
      return builder.create<nn::GetOp>(parameter.getLoc(),
                                       nn::gradientType(state.getType()),
                                       gradientName(state));
    };
    Reverse reverse(builder, pairs, keyOf, readGradient,
                    /*sums=*/config::sumsGradients(strategy));
    SmallVector<Value> seeds;
    for (auto get : body.getOps<nn::GetOp>())
      if (keyOf(get.getValue()))
        seeds.push_back(get.getValue());
    reverse.findActive(body, seeds);
    reverse.rewriteCalls(body);
    for (nn::SumOp sum : losses)
      if (reverse.isActive(sum.getInput()))
        reverse.add(sum.getInput(), sum.getWeights());
    SmallVector<Operation *> forward;
    for (Operation &op : body.without_terminator())
      forward.push_back(&op);
    reverse.run(forward, IRMapping());
    if (pairs.failed)
      return failure();
    for (auto &[key, sum] : reverse.allSums()) {
      auto state = cast<nn::StateOp>(
          const_cast<Operation *>(static_cast<const Operation *>(key)));
      builder.setInsertionPointAfterValue(sum);
      builder.create<nn::SetOp>(sum.getLoc(), gradientName(state), sum);
      trained.insert(key);
    }
    if (reverse.allSums().empty())
      return step.emitError(
          "H0355: the loss depends on no parameter that is trainable");
    return success();
  }
};

} // namespace
