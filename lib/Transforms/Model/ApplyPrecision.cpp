//===- ApplyPrecision.cpp - Makes the compute precision explicit ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NormWeights.h"
#include "dialects/Dist/ComputeType.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Model/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_MODELAPPLYPRECISION
#include "include/heddle/Transforms/Model/Passes.h.inc"
} // namespace heddle

namespace {

/// Whether the result is f32 even if the model computes in another precision.
/// Statistics and losses are such results.
bool staysF32(OpResult result) {
  auto op = dyn_cast<nn::PropertiesOpInterface>(result.getOwner());
  return op && op.staysF32(result.getResultNumber());
}

struct ApplyPrecision : heddle::impl::ModelApplyPrecisionBase<ApplyPrecision> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    const dist::ComputeType &type = dist::computeType(strategy.precision);
    if (!type.isNarrow())
      return;
    compute = type.get(&getContext());
    bool trains = strategy.mode == config::Mode::Train;
    narrowStates(model, trains);
    if (trains)
      addCopies(model, wordOf(strategy.precision));
    SymbolTable symbols(model);
    converted.clear();
    for (auto function : model.getOps<nn::FuncOp>())
      convert(symbols, function);
  }

private:
  Type lowered(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.getElementType().isF32())
      return type;
    return tensor.clone(compute);
  }

  /// Changes the types of states to the compute precision. Caches are changed
  /// because they hold activations. If the model is not trained, all other
  /// states are changed, too.
  void narrowStates(nn::ModelOp model, bool trains) {
    for (auto state : model.getOps<nn::StateOp>())
      if (!trains || state.getRole() == nn::StateRole::Cache)
        state.setType(lowered(state.getType()));
  }

  /// Adds a copy in compute precision for every parameter, and makes all
  /// functions read the copy. The parameter becomes the master weight.
  void addCopies(nn::ModelOp model, StringRef precision) {
    OpBuilder builder(&getContext());
    llvm::StringMap<std::string> copies;
    for (auto state : llvm::make_early_inc_range(model.getOps<nn::StateOp>())) {
      if (state.getRole() != nn::StateRole::Parameter)
        continue;
      std::string name = (state.getSymName() + "." + precision).str();
      copies[state.getSymName()] = name;
      builder.setInsertionPointAfter(state);
      auto copy = cast<nn::StateOp>(builder.clone(*state));
      copy.setSymName(name);
      copy.setRole(nn::StateRole::Derived);
      copy.setType(lowered(state.getType()));
      copy.setParameterAttr(builder.getStringAttr(state.getSymName()));
      copy.setCheckpointed(false);
      copy.removeInitAttr();
      copy.removeSourceAttr();
      ++numCopies;
    }
    model.walk([&](nn::GetOp get) {
      auto copy = copies.find(get.getState());
      if (copy == copies.end())
        return;
      get.setState(copy->second);
      get->getResult(0).setType(lowered(get.getType()));
    });
  }

  /// Converts a function to the compute precision, after the functions that it
  /// calls: the type of a call is that of its callee.
  void convert(const SymbolTable &symbols, nn::FuncOp function) {
    if (!converted.insert(function).second)
      return;
    for (BlockArgument argument : function.getArguments())
      argument.setType(lowered(argument.getType()));
    // Integers, such as ids, keep their types. The result types of the function
    // are those of its terminator's operands.
    function.walk([&](Operation *op) {
      if (auto call = dyn_cast<nn::CallOp>(op)) {
        auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
        convert(symbols, callee);
        for (auto [result, type] :
             llvm::zip(call.getResults(), callee.getResultTypes()))
          result.setType(type);
        return;
      }
      for (OpResult result : op->getResults())
        if (!staysF32(result) && !isNormWeight(op))
          result.setType(lowered(result.getType()));
    });
    updateFunctionType(function);
  }

  Type compute;
  DenseSet<Operation *> converted;
};

} // namespace
