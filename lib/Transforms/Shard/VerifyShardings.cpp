//===- VerifyShardings.cpp - Whether shardings hold together --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace {

class ShardingsVerifier {
public:
  ShardingsVerifier(nn::ModelOp model, StringRef code)
      : model(model), symbols(model), code((code + ": ").str()) {}

  LogicalResult verify() {
    WalkResult walk = model.getBody().walk(
        [&](Operation *op) { return WalkResult(verify(op)); });
    return failure(walk.wasInterrupted());
  }

private:
  LogicalResult verify(Operation *op) {
    if (auto reshard = dyn_cast<dist::ReshardOp>(op))
      return expect(op, reshard.getInput(), reshard.getFrom());
    if (auto stack = dyn_cast<dist::StackOp>(op))
      return expect(op, stack.getInput(), stack.getFrom());
    if (auto set = dyn_cast<nn::SetOp>(op))
      return expect(op, set.getValue(), storageOf(set));
    if (auto call = dyn_cast<nn::CallOp>(op))
      return expect(
          op, call.getOperands(),
          symbols.lookup<nn::FuncOp>(call.getCallee()).getArgShardings());
    if (auto function = dyn_cast<nn::FuncOp>(op->getParentOp());
        function && isa<nn::ReturnOp>(op))
      return expect(op, op->getOperands(), function.getResultShardings());
    if (auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op))
      return verifyCompute(op, ruled.getShardingRule());
    return success();
  }

  TensorShardingAttr of(Value value) {
    if (auto pack = value.getDefiningOp<nn::PackOp>())
      return ofPacked(pack);
    if (TensorShardingAttr sharding = shard::shardingOf(value, symbols))
      return sharding;
    auto type = cast<RankedTensorType>(value.getType());
    return shard::wholeSharding(model.getContext(), type.getRank());
  }

  /// The sharding without partial sums over the axis of pipeline stages. The
  /// checks within one stage ignore such sums, because each stage has only its
  /// own summand.
  TensorShardingAttr withinStage(TensorShardingAttr sharding) {
    SmallVector<Attribute> sums(sharding.getUnreduced().getValue());
    llvm::erase_if(sums, [](Attribute axis) {
      return dist::roleOf(axis) == dist::AxisRole::Pipeline;
    });
    return TensorShardingAttr::get(model.getContext(), sharding.getDims(),
                                   ArrayAttr::get(model.getContext(), sums));
  }

  /// The sharding that a packed (flat) value must have. It is split over all
  /// mesh axes that split any member. It is a partial sum over all axes over
  /// which any member is a partial sum.
  TensorShardingAttr ofPacked(nn::PackOp pack) {
    llvm::SetVector<Attribute> split, sums;
    for (Value member : pack.getMembers()) {
      for (auto axes : of(member).getDims().getAsRange<ArrayAttr>())
        split.insert(axes.begin(), axes.end());
      auto unreduced = of(member).getUnreduced();
      sums.insert(unreduced.begin(), unreduced.end());
    }
    MLIRContext *context = model.getContext();
    return TensorShardingAttr::get(
        context,
        ArrayAttr::get(context, {ArrayAttr::get(context, split.getArrayRef())}),
        ArrayAttr::get(context, sums.getArrayRef()));
  }

  TensorShardingAttr storageOf(nn::SetOp set) {
    TensorShardingAttr storage =
        shard::storageOf(symbols.lookup(set.getState()));
    return set.getSlot() ? shard::dropFirst(storage) : storage;
  }

  LogicalResult expect(Operation *op, Value value, TensorShardingAttr wanted) {
    TensorShardingAttr found = of(value);
    if (withinStage(found) == withinStage(wanted))
      return success();
    return op->emitError(code) << "takes a value that is sharded as " << found
                               << "; it counts on " << wanted;
  }

  LogicalResult expect(Operation *op, OperandRange values,
                       std::optional<ArrayAttr> wanted) {
    if (!wanted)
      return success();
    for (auto [value, attribute] : llvm::zip(values, *wanted))
      if (auto sharding = dyn_cast<TensorShardingAttr>(attribute))
        if (failed(expect(op, value, sharding)))
          return failure();
    return success();
  }

  /// Checks the shardings of a computation: all dimensions of a factor of its
  /// sharding rule must be split alike. If the operation sums over the factor,
  /// the results must be partial sums over the mesh axes that split it.
  LogicalResult verifyCompute(Operation *op, const dist::ShardingRule &rule) {
    SmallVector<ArrayAttr> axes(rule.factors.size());
    auto note = [&](Value value, ArrayRef<int64_t> dims) -> LogicalResult {
      for (auto [factor, list] :
           llvm::zip(dims, of(value).getDims().getAsRange<ArrayAttr>())) {
        if (axes[factor] && axes[factor] != list)
          return op->emitError(code)
                 << "has the factor " << rule.factors[factor].name
                 << " split over " << axes[factor] << " and over " << list;
        axes[factor] = list;
      }
      return success();
    };
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      if (!dims.empty() && failed(note(operand, dims)))
        return failure();
    for (auto [result, dims] : llvm::zip(op->getResults(), rule.results))
      if (failed(note(result, dims)))
        return failure();
    return verifySums(op, rule, axes);
  }

  LogicalResult verifySums(Operation *op, const dist::ShardingRule &rule,
                           ArrayRef<ArrayAttr> axes) {
    if (op->getNumResults() == 0)
      return success();
    ArrayAttr sums = of(op->getResult(0)).getUnreduced();
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()) ||
          shard::readsSummand(operand))
        continue;
      for (Attribute axis : withinStage(of(operand.get())).getUnreduced())
        if (!llvm::is_contained(sums, axis))
          return op->emitError(code) << "takes a partial sum over " << axis;
      // If one operand of an addition is a partial sum and the other one is
      // whole, every rank would add the whole operand to the sum.
      if (isa<nn::AddOp>(op))
        for (Attribute axis : sums)
          if (!llvm::is_contained(of(operand.get()).getUnreduced(), axis))
            return op->emitError(code)
                   << "adds a value to a partial sum over " << axis;
    }
    for (auto [factor, list] : llvm::zip(rule.factors, axes))
      if (list && factor.kind == dist::FactorKind::Reduction)
        for (Attribute axis : list)
          if (!llvm::is_contained(sums, axis))
            return op->emitError(code)
                   << "adds up what is split over " << axis
                   << ", but its results are said to be whole";
    return success();
  }

  nn::ModelOp model;
  SymbolTable symbols;
  std::string code;
};

} // namespace

LogicalResult heddle::shard::verifyShardings(nn::ModelOp model,
                                             StringRef code) {
  return ShardingsVerifier(model, code).verify();
}
