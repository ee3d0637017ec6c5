//===- Verify.cpp - What the shard phase promises -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDVERIFY
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : VerifyPass<heddle::impl::ShardVerifyBase, Verify> {
  LogicalResult verify(nn::ModelOp model) {
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    return failure(
        failed(mesh) ||
        failed(verifyEach<nn::ShardingRuleOpInterface>(model, verifyRule)) ||
        failed(verifyEach<Operation *>(model, verifyValues)) ||
        failed(verifyMesh(model, *mesh)) ||
        failed(verifyStates(model, "H0904")) ||
        failed(shard::verifyShardings(model, "H0904")));
  }

  static LogicalResult verifyRule(nn::ShardingRuleOpInterface op) {
    if (failed(dist::verifyRule(op, op.getShardingRule())))
      return failure();
    auto shardings = op->getAttrOfType<ArrayAttr>("shardings");
    if (!shardings || shardings.size() != op->getNumResults())
      return op->emitError("H0904: does not say how its results are sharded");
    return verifyUsers(op);
  }

  static LogicalResult verifyValues(Operation *op) {
    if (auto fill = dyn_cast<nn::FillOp>(op))
      return verifyFill(fill);
    auto reshard = dyn_cast<dist::ReshardOp>(op);
    return reshard ? verifySums(reshard) : success();
  }

  /// Checks that a constant which is a partial sum is zero. Otherwise every
  /// rank would add the constant to the sum.
  static LogicalResult verifyFill(nn::FillOp fill) {
    auto sharding = cast<dist::TensorShardingAttr>(fill.getShardingsAttr()[0]);
    if (fill.getValue().isZero() || sharding.getUnreduced().empty())
      return success();
    return fill.emitError("H0904: is a partial sum over ")
           << sharding.getUnreduced() << ": every rank would add its value";
  }

  /// Checks that no reshard turns a whole value into a partial sum, because
  /// every rank would then contribute the whole value to the sum.
  static LogicalResult verifySums(dist::ReshardOp reshard) {
    for (Attribute axis : reshard.getTo().getUnreduced())
      if (!llvm::is_contained(reshard.getFrom().getUnreduced(), axis))
        return reshard.emitError("H0904: makes a partial sum over ")
               << axis << " of a value that is none";
    return success();
  }

  /// Checks that the mesh has the axes and sizes that the settings of the
  /// compilation give.
  LogicalResult verifyMesh(nn::ModelOp model, dist::MeshOp mesh) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    SmallVector<dist::Axis> axes = dist::axesOf(strategy);
    bool right = mesh.getAxes().size() == axes.size();
    for (auto [axis, expected] :
         llvm::zip(mesh.getAxes().getAsRange<dist::MeshAxisAttr>(), axes)) {
      StringRef whole = axis.getWhole() ? axis.getWhole().getValue() : "";
      right &= axis.getName() == expected.name &&
               axis.getSize() == expected.size && whole == expected.factorOf;
    }
    if (right)
      return success();
    auto error = mesh.emitError("H0904: is not the mesh of the strategy: ");
    llvm::interleaveComma(axes, error, [&](const dist::Axis &axis) {
      error << axis.name << " " << axis.size;
    });
    return error;
  }

  /// Whether the operation may read a partial sum. It may if it reshards, packs
  /// or forwards the value. It also may if its result, or the state that it
  /// writes, is a partial sum.
  static bool passesSums(Operation *op) {
    auto shardings = op->getAttrOfType<ArrayAttr>("shardings");
    bool sums = shardings &&
                llvm::any_of(shardings.getAsRange<dist::TensorShardingAttr>(),
                             [](dist::TensorShardingAttr sharding) {
                               return !sharding.getUnreduced().empty();
                             });
    if (auto set = dyn_cast<nn::SetOp>(op)) {
      Operation *state = SymbolTable::lookupNearestSymbolFrom(
          set, FlatSymbolRefAttr(set.getStateAttr()));
      return state && !shard::storageOf(state).getUnreduced().empty();
    }
    return sums ||
           isa<dist::ReshardOp, dist::StackOp, nn::PackOp, nn::CallOp>(op) ||
           (isa<nn::ReturnOp>(op) && isa<nn::FuncOp>(op->getParentOp()));
  }

  /// Checks that a partial sum is reduced before any operation that needs the
  /// whole sum reads it.
  static LogicalResult verifyUsers(nn::ShardingRuleOpInterface op) {
    auto shardings = op->getAttrOfType<ArrayAttr>("shardings");
    for (auto [result, attribute] : llvm::zip(op->getResults(), shardings)) {
      if (cast<dist::TensorShardingAttr>(attribute).getUnreduced().empty())
        continue;
      for (OpOperand &use : result.getUses())
        if (!passesSums(use.getOwner()) && !shard::readsSummand(use))
          return use.getOwner()->emitError("H0904: takes a partial sum");
    }
    return success();
  }
};

} // namespace
