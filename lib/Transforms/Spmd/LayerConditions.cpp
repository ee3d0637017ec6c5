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

/// A range of what an operation read from a state: `count` elements from
/// element `begin` on of the result of `read`, an nn.get or dist.fetch.
struct StateContent {
  Operation *read = nullptr;
  int64_t begin = 0, count = 0;
  /// The value has this content in the steps in which the condition is false.
  /// Null: in all steps.
  FlatSymbolRefAttr unless;
};

class Finder {
public:
  explicit Finder(nn::StepOp step)
      : symbols(step->getParentOfType<nn::ModelOp>()) {
    step->walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  }

  FailureOr<LayerConditions> run() {
    for (Operation *op : ops)
      if (failed(followValues(op)))
        return failure();
    for (Operation *op : llvm::reverse(ops))
      findServing(op);
    findSaving();
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
    auto ofOperation = [&](Operation *op) {
      return isa<nn::CallOp>(op) ? nn::conditionOf(op) : found.lookup(op);
    };
    return nn::conditionOf(use, ofOperation);
  }

  LogicalResult followValues(Operation *op) {
    if (auto call = dyn_cast<nn::CallOp>(op)) {
      followCall(call);
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
      condition = writesSame(op);
    if (condition) {
      found[op] = condition;
      for (Value result : op->getResults())
        missing[result] = condition;
      return success();
    }
    if (FlatSymbolRefAttr ofZeros = keepsZeros(op))
      for (Value result : op->getResults())
        zeros[result] = ofZeros;
    followContent(op);
    return success();
  }

  void followCall(nn::CallOp call) {
    FlatSymbolRefAttr condition = call.getWhenAttr();
    if (!condition)
      return;
    for (auto [result, passed] :
         llvm::zip(call.getResults(), *call.getPasses())) {
      if (passed == nn::CallOp::passesNothing)
        missing[result] = condition;
      else if (passed == nn::CallOp::passesZeros)
        zeros[result] = condition;
      else
        keepContent(result, contentOf(call.getOperand(passed)), condition);
    }
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

  //===--------------------------------------------------------------------===//
  // Values that are what a state has
  //===--------------------------------------------------------------------===//

  StateContent contentOf(Value value) const { return contents.lookup(value); }

  /// Sets that `value` has this content in steps in which the condition is
  /// false. A null condition adds nothing to that of the content.
  void keepContent(Value value, StateContent content,
                   FlatSymbolRefAttr condition = {}) {
    bool isOne = !content.unless || !condition || content.unless == condition;
    if (!content.read || !isOne)
      return;
    if (condition)
      content.unless = condition;
    contents[value] = content;
  }

  void followContent(Operation *op) {
    if (isa<nn::GetOp, dist::FetchOp>(op))
      if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType()))
        keepContent(op->getResult(0), {op, 0, type.getNumElements(), {}});
    if (auto wait = dyn_cast<dist::WaitOp>(op))
      keepContent(wait.getOutput(), contentOf(wait.getInput()));
    if (auto unpack = dyn_cast<nn::UnpackOp>(op)) {
      StateContent part = contentOf(unpack.getFlat());
      for (Value member : unpack.getMembers()) {
        part.count = nn::tensorOf(member).getNumElements();
        keepContent(member, part);
        part.begin += nn::paddedElements(part.count);
      }
    }
    if (auto pack = dyn_cast<nn::PackOp>(op))
      followPack(pack);
    if (auto add = dyn_cast<nn::AddOp>(op))
      for (auto [before, added] : {std::pair(add.getLhs(), add.getRhs()),
                                   std::pair(add.getRhs(), add.getLhs())})
        if (FlatSymbolRefAttr condition = zeros.lookup(added))
          keepContent(add.getOutput(), contentOf(before), condition);
  }

  /// If the members of a pack are next to each other in what an operation has
  /// read, the flat tensor has this content too.
  void followPack(nn::PackOp pack) {
    StateContent flat = contentOf(pack.getMembers().front());
    int64_t next = flat.begin;
    FlatSymbolRefAttr unless;
    for (Value member : pack.getMembers()) {
      StateContent part = contentOf(member);
      bool isNext = part.read && part.read == flat.read && part.begin == next;
      if (!isNext || (unless && part.unless && unless != part.unless))
        return;
      unless = part.unless ? part.unless : unless;
      next += nn::paddedElements(part.count);
    }
    flat.count = nn::tensorOf(pack.getFlat()).getNumElements();
    flat.unless = unless;
    keepContent(pack.getFlat(), flat);
  }

  /// If `op` writes a state and does not change it whenever a condition is
  /// false, returns the condition, otherwise null.
  FlatSymbolRefAttr writesSame(Operation *op) const {
    if (!isa<nn::SetOp, dist::StoreOp>(op))
      return {};
    auto isWriteOf = [&](Operation *other) {
      return other->getName() == op->getName() &&
             other->getAttr("state") == op->getAttr("state");
    };
    auto set = dyn_cast<nn::SetOp>(op);
    Value value = set ? set.getValue() : cast<dist::StoreOp>(op).getValue();
    StateContent content = contentOf(value);
    if (!content.unless || content.read->getBlock() != op->getBlock() ||
        content.read->getAttr("state") != op->getAttr("state") ||
        content.count != nn::tensorOf(value).getNumElements())
      return {};
    if (set) {
      auto get = dyn_cast<nn::GetOp>(content.read);
      if (!get || get.getSlot() != set.getSlot() || content.begin != 0)
        return {};
    } else {
      auto store = cast<dist::StoreOp>(op);
      auto fetch = dyn_cast<dist::FetchOp>(content.read);
      if (!fetch || fetch.getSlot() != store.getSlot() ||
          int64_t(fetch.getElement()) + content.begin !=
              int64_t(store.getElement()))
        return {};
    }
    // Another write in between could have changed the state.
    for (Operation *other = content.read; other != op;
         other = other->getNextNode())
      if (isWriteOf(other) && mayOverlap(op, other))
        return {};
    return content.unless;
  }

  /// Whether two writes of one state, both nn.set or both dist.store, may write
  /// the same elements.
  static bool mayOverlap(Operation *write, Operation *other) {
    auto store = dyn_cast<dist::StoreOp>(write);
    if (!store)
      return true;
    auto before = cast<dist::StoreOp>(other);
    auto end = [](dist::StoreOp one) {
      return int64_t(one.getElement()) +
             nn::tensorOf(one.getValue()).getNumElements();
    };
    return store.getSlot() != before.getSlot() ||
           (int64_t(store.getElement()) < end(before) &&
            int64_t(before.getElement()) < end(store));
  }

  //===--------------------------------------------------------------------===//
  // Operations that serve a layer
  //===--------------------------------------------------------------------===//

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

  /// Gives the writes of a state that holds saved activations the condition
  /// that all reads of the state have. An example is the input of a layer.
  void findSaving() {
    llvm::MapVector<Attribute, SmallVector<Operation *>> reads, writes;
    for (Operation *op : ops) {
      auto name = op->getAttrOfType<FlatSymbolRefAttr>("state");
      auto state =
          name ? symbols.lookup<nn::StateOp>(name.getValue()) : nn::StateOp();
      if (state && state.getRole() == nn::StateRole::Saved)
        (isa<nn::SetOp, dist::StoreOp>(op) ? writes : reads)[name].push_back(
            op);
    }
    for (auto &[name, readers] : reads) {
      FlatSymbolRefAttr condition = found.lookup(readers.front());
      bool isSame = llvm::all_of(readers, [&](Operation *reader) {
        return found.lookup(reader) == condition;
      });
      if (condition && isSame)
        for (Operation *write : writes[name])
          found[write] = condition;
    }
  }

  SymbolTable symbols;
  std::vector<Operation *> ops; ///< All operations of the step, in order.
  /// The conditions of the operations found so far.
  DenseMap<Operation *, FlatSymbolRefAttr> found;
  /// For a value that is not computed, or that is zero, whenever a condition is
  /// false: the condition.
  DenseMap<Value, FlatSymbolRefAttr> missing, zeros;
  /// Values that are a part of what an operation has read from a state.
  DenseMap<Value, StateContent> contents;
};

} // namespace

FailureOr<LayerConditions> spmd::layerConditionsOf(nn::StepOp step) {
  return Finder(step).run();
}
