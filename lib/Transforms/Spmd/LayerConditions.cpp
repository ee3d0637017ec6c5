//===- LayerConditions.cpp - What steps skip with a layer -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerConditions.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/NN/Conditions.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace {

class Finder {
public:
  explicit Finder(nn::StepOp step) {
    step->walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  }

  FailureOr<LayerConditions> run() {
    for (Operation *op : ops)
      if (failed(followValues(op)))
        return failure();
    for (Operation *op : llvm::reverse(ops))
      findServing(op);
    LayerConditions conditions;
    for (Operation *op : ops)
      if (FlatSymbolRefAttr condition = found.lookup(op))
        conditions[op] = condition;
    return conditions;
  }

private:
  /// The condition of a use of a value: that of a call, or the one found so
  /// far.
  FlatSymbolRefAttr conditionOf(OpOperand &use) const {
    return isa<nn::CallOp>(use.getOwner()) ? nn::conditionOf(use)
                                           : found.lookup(use.getOwner());
  }

  LogicalResult followValues(Operation *op) {
    if (auto call = dyn_cast<nn::CallOp>(op)) {
      if (!call.getWhen())
        return success();
      for (auto [result, passed] :
           llvm::zip(call.getResults(), *call.getPasses())) {
        if (passed == nn::CallOp::passesNothing)
          missing[result] = call.getWhenAttr();
        if (passed == nn::CallOp::passesZeros)
          zeros[result] = call.getWhenAttr();
      }
      return success();
    }
    FlatSymbolRefAttr condition;
    for (Value operand : op->getOperands()) {
      FlatSymbolRefAttr ofOperand = missing.lookup(operand);
      if (ofOperand && condition && ofOperand != condition)
        return op->emitError("H0906: uses values of layers with the "
                             "conditions ")
               << condition << " and " << ofOperand;
      condition = ofOperand ? ofOperand : condition;
    }
    if (!condition)
      condition = addsNothing(op);
    if (condition) {
      found[op] = condition;
      for (Value result : op->getResults())
        missing[result] = condition;
    } else if (FlatSymbolRefAttr ofZeros = keepsZeros(op)) {
      for (Value result : op->getResults())
        zeros[result] = ofZeros;
    }
    return success();
  }

  /// If the results of `op` are zero whenever a condition is false, because its
  /// operands are, returns the condition, otherwise null.
  FlatSymbolRefAttr keepsZeros(Operation *op) const {
    bool isLinear =
        isa<nn::PackOp, nn::UnpackOp, nn::AddOp, nn::CastOp, dist::WaitOp,
            dist::MoveOp, dist::AllReduceOp, dist::ReduceScatterOp,
            dist::AllGatherOp, dist::AllToAllOp, dist::RotateOp, dist::SliceOp>(
            op);
    if (!isLinear || op->getNumOperands() == 0)
      return {};
    FlatSymbolRefAttr condition = zeros.lookup(op->getOperand(0));
    bool isSame = llvm::all_of(op->getOperands(), [&](Value operand) {
      return zeros.lookup(operand) == condition;
    });
    return isSame ? condition : FlatSymbolRefAttr();
  }

  static Value withoutWait(Value value) {
    auto wait = value.getDefiningOp<dist::WaitOp>();
    return wait ? wait.getInput() : value;
  }

  /// Whether `value` is what the state that `write` writes had before, and is
  /// not written in between.
  static bool isBefore(Value value, Operation *write) {
    Operation *read = withoutWait(value).getDefiningOp();
    bool isSame = false;
    if (auto set = dyn_cast<nn::SetOp>(write))
      if (auto get = dyn_cast_or_null<nn::GetOp>(read))
        isSame = get.getStateAttr() == set.getStateAttr() &&
                 get.getSlot() == set.getSlot();
    if (auto store = dyn_cast<dist::StoreOp>(write))
      if (auto fetch = dyn_cast_or_null<dist::FetchOp>(read))
        isSame = fetch.getStateAttr() == store.getStateAttr() &&
                 fetch.getElement() == store.getElement() &&
                 fetch.getSlot() == store.getSlot() &&
                 fetch.getType() == store.getValue().getType();
    if (!isSame || read->getBlock() != write->getBlock())
      return false;
    StringAttr name = write->getName().getIdentifier();
    for (Operation *op = read; op != write; op = op->getNextNode())
      if (op->getName().getIdentifier() == name &&
          op->getAttr("state") == write->getAttr("state") &&
          op->getAttr("element") == write->getAttr("element"))
        return false;
    return true;
  }

  /// If `op` writes a state and does not change it whenever a condition is
  /// false, returns the condition, otherwise null.
  FlatSymbolRefAttr addsNothing(Operation *op) const {
    Value value;
    if (auto set = dyn_cast<nn::SetOp>(op))
      value = set.getValue();
    if (auto store = dyn_cast<dist::StoreOp>(op))
      value = store.getValue();
    auto add = value ? value.getDefiningOp<nn::AddOp>() : nn::AddOp();
    if (!add)
      return {};
    for (auto [before, added] : {std::pair(add.getLhs(), add.getRhs()),
                                 std::pair(add.getRhs(), add.getLhs())})
      if (FlatSymbolRefAttr condition = zeros.lookup(added))
        if (isBefore(before, op))
          return condition;
    return {};
  }

  /// Gives `op` the condition that all users of its results have, if skipping
  /// `op` has no other effect.
  void findServing(Operation *op) {
    bool mayBeSkipped =
        isPure(op) || isa<nn::GetOp, dist::FetchOp, dist::FetchRowsOp>(op);
    if (found.contains(op) || isa<nn::CallOp>(op) || !mayBeSkipped ||
        op->use_empty() ||
        !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
      return;
    FlatSymbolRefAttr condition = conditionOf(*op->use_begin());
    bool isSame = llvm::all_of(op->getUses(), [&](OpOperand &use) {
      return conditionOf(use) == condition;
    });
    if (condition && isSame)
      found[op] = condition;
  }

  std::vector<Operation *> ops; ///< All operations of the step, in order.
  /// The conditions of the operations found so far.
  DenseMap<Operation *, FlatSymbolRefAttr> found;
  /// For a value that is not computed, or that is zero, whenever a condition is
  /// false: the condition.
  DenseMap<Value, FlatSymbolRefAttr> missing, zeros;
};

} // namespace

FailureOr<LayerConditions> spmd::layerConditionsOf(nn::StepOp step) {
  return Finder(step).run();
}
