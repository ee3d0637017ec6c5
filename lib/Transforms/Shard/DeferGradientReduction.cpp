//===- DeferGradientReduction.cpp - Reduce gradients once a step ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defers the reduction of some gradients. With sequence parallelism, the
// gradients of parameters that all ranks along the mesh axis `tensor` hold
// whole are partial sums over this axis. Less is sent if they are reduced once,
// after all micro-batches, instead of in every micro-batch.
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "ShardingPlan.h"
#include "ZeroStorage.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDDEFERGRADIENTREDUCTION
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// Whether the value is a partial sum over the mesh axis `tensor`.
bool sumsOverTensor(TensorShardingAttr sharding) {
  return llvm::any_of(sharding.getUnreduced(), [](Attribute axis) {
    return dist::roleOf(axis) == dist::AxisRole::Tensor;
  });
}

/// Finds the gradients that are reduced over the mesh axis `tensor` in every
/// micro-batch. The class must be used before the storage of gradients is
/// changed to partial sums, because it finds none of them afterwards.
class Sums {
public:
  Sums(nn::ModelOp model, const shard::ShardingPlan &plan)
      : plan(plan), symbols(model) {
    model.walk([&](nn::SetOp set) { sets[set.getState()].push_back(set); });
  }

  /// Whether every summand of the gradient is reduced over the mesh axis
  /// `tensor` before the summand is added to the state of the gradient. One
  /// reduction after all micro-batches then gives the same sum.
  bool addsUp(StringRef gradient) {
    bool any = false;
    for (nn::SetOp set : sets.lookup(gradient)) {
      std::optional<bool> sums = addsUp(set.getValueMutable(), {});
      if (!sums)
        return false;
      any |= *sums;
    }
    return any;
  }

private:
  /// Whether every summand of the value of the operand `use` has already been
  /// reduced over the mesh axis `tensor`. Returns nullopt if one of them has
  /// not. Returns false if there are no summands yet, only an initial value
  /// such as zeros. If the operand is in a function, `call` is the function's
  /// call. If the operand is in a step, `call` is null.
  std::optional<bool> addsUp(OpOperand &use, nn::CallOp call) {
    bool isReduced = sumsOverTensor(plan.of(use.get())) &&
                     !sumsOverTensor(plan.takenAs(use));
    return isReduced ? true : addsUp(use.get(), call);
  }

  std::optional<bool> either(std::optional<bool> left,
                             std::optional<bool> right) {
    return left && right ? std::optional(*left || *right) : std::nullopt;
  }

  std::optional<bool> addsUp(Value value, nn::CallOp call) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return call ? addsUp(call->getOpOperand(argument.getArgNumber()), {})
                  : std::nullopt;
    Operation *op = value.getDefiningOp();
    if (op->hasTrait<nn::Rematerializable>())
      return false;
    // The plan removes an init (an operand to which the operation adds its
    // result) from the operation, and adds it after the reduction.
    if (const shard::Sequel *sequel = plan.sequelOf(value);
        sequel && sequel->init) {
      auto isReduced = [&](TensorShardingAttr sharding) {
        return sumsOverTensor(sharding) &&
               !sumsOverTensor(sequel->need.sharding);
      };
      Value init = sequel->init->get();
      std::optional<bool> sum, start = true;
      if (isReduced(plan.madeAs(value)))
        sum = true;
      if (!isReduced(plan.of(init)))
        start = addsUp(init, call);
      return either(sum, start);
    }
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      OpOperand &input = reshard.getInputMutable();
      bool isReduced = sumsOverTensor(plan.of(input.get())) &&
                       !sumsOverTensor(reshard.getTo());
      return isReduced ? true : addsUp(input, call);
    }
    if (auto add = dyn_cast<nn::AddOp>(op))
      return either(addsUp(add.getLhsMutable(), call),
                    addsUp(add.getRhsMutable(), call));
    if (auto inner = dyn_cast<nn::CallOp>(op); inner && !call) {
      auto callee = symbols.lookup<nn::FuncOp>(inner.getCallee());
      unsigned number = cast<OpResult>(value).getResultNumber();
      return addsUp(
          callee.getBody().front().getTerminator()->getOpOperand(number),
          inner);
    }
    return std::nullopt;
  }

  const shard::ShardingPlan &plan;
  SymbolTable symbols;
  llvm::StringMap<SmallVector<nn::SetOp>> sets; ///< The writes of each state.
};

struct DeferGradientReduction
    : heddle::impl::ShardDeferGradientReductionBase<DeferGradientReduction> {
  using Base::Base;

  void runOnOperation() override {
    changed = false;
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    if (failed(mesh))
      return signalPassFailure();
    shard::ZeroStorage zero(model, *mesh);
    tensorAxes = zero.tensorAxes;
    if (strategy.sequenceParallel && !tensorAxes.empty() &&
        !zero.splits(nn::StateRole::Gradient)) {
      if (!getAnalysis<shard::ShardingPlan>().isComplete())
        return signalPassFailure();
      defer(model, strategy);
    }
    if (!changed)
      markAllAnalysesPreserved();
    reasons.print(llvm::errs());
  }

private:
  void defer(nn::ModelOp model, const dist::Strategy &strategy) {
    Sums sums(model, getAnalysis<shard::ShardingPlan>());
    SymbolTable symbols(model);
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      auto members = bucket.getMembers().getAsRange<FlatSymbolRefAttr>();
      bool all = llvm::all_of(members, [&](FlatSymbolRefAttr member) {
        auto state = symbols.lookup<nn::StateOp>(member.getValue());
        return state.getRole() == nn::StateRole::Gradient &&
               sums.addsUp(member.getValue());
      });
      if (!all)
        continue;
      for (FlatSymbolRefAttr member : members)
        keepSum(symbols.lookup(member.getValue()));
      keepSum(bucket);
      if (printReasons)
        reasons.add(bucket.getSymName(), *bucket.getStorage(),
                    "tensor ranks share the tokens out "
                    "(shard-defer-gradient-reduction)");
      addUp(model, bucket, strategy);
      ++numDeferred;
      changed = true;
    }
  }

  /// Changes the storage of a state or bucket, so that each rank along the mesh
  /// axis `tensor` keeps its own partial sum.
  void keepSum(Operation *op) {
    Builder builder(&getContext());
    TensorShardingAttr storage = shard::storageOf(op);
    SmallVector<Attribute> axes(storage.getUnreduced().getValue());
    llvm::append_range(axes, tensorAxes);
    op->setAttr("storage",
                TensorShardingAttr::get(&getContext(), storage.getDims(),
                                        builder.getArrayAttr(axes)));
  }

  /// Inserts the reduction over the mesh axis `tensor` before the optimizer
  /// update that reads the bucket. With replicas there already is a reshard
  /// that reduces the bucket over the replicas, which is changed to reduce over
  /// `tensor`, too; or each replica reads its own summand.
  void addUp(nn::ModelOp model, nn::BucketOp bucket,
             const dist::Strategy &strategy) {
    model.walk([&](nn::GetOp get) {
      bool known =
          llvm::any_of(get->getUsers(), llvm::IsaPred<dist::ReshardOp>);
      if (get.getState() != bucket.getSymName() || known)
        return;
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(get);
      TensorShardingAttr from = *bucket.getStorage();
      SmallVector<Attribute> ofReplicas(from.getUnreduced().getValue());
      llvm::erase_if(ofReplicas, [&](Attribute axis) {
        return llvm::is_contained(tensorAxes, axis);
      });
      auto to = TensorShardingAttr::get(&getContext(), from.getDims(),
                                        builder.getArrayAttr(ofReplicas));
      auto sum = builder.create<dist::ReshardOp>(
          get.getLoc(), bucket.getType(), get.getValue(), from, to,
          builder.getStringAttr("nn.update"),
          dist::gradientWire(strategy, builder), DenseI64ArrayAttr());
      get.getValue().replaceAllUsesExcept(sum.getOutput(), sum);
    });
  }

  SmallVector<Attribute> tensorAxes; ///< The axes with the role Tensor.
  bool changed = false;
  shard::Reasons reasons;
};

} // namespace
