//===- DeferSums.cpp - Gradients are added up once a step -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "Units.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDDEFERSUMS
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

bool sumsOverTensor(TensorShardingAttr sharding) {
  return llvm::any_of(sharding.getUnreduced(), [](Attribute axis) {
    return dist::roleOf(axis) == dist::AxisRole::Tensor;
  });
}

/// A model as propagation makes it while every gradient is stored without a sum
/// over `tensor`: says which of them are added up over it.
class Trial {
public:
  explicit Trial(nn::ModelOp model) : module(ModuleOp::create(model.getLoc())) {
    module->push_back(model->clone());
  }

  LogicalResult run() {
    // What is wrong is reported when the model itself is sharded.
    ScopedDiagnosticHandler quiet(module->getContext(),
                                  [](Diagnostic &) { return success(); });
    PassManager passes(module->getContext());
    passes.addPass(createShardPropagate());
    if (failed(passes.run(*module)))
      return failure();
    nn::ModelOp model = *module->getOps<nn::ModelOp>().begin();
    symbols.emplace(model);
    model.walk([&](nn::SetOp set) { sets[set.getState()].push_back(set); });
    return success();
  }

  /// Whether all that is written to the gradient is a sum over `tensor`.
  bool addsUp(StringRef gradient) {
    bool any = false;
    for (nn::SetOp set : sets.lookup(gradient)) {
      std::optional<bool> sums = addsUp(set.getValue(), {});
      if (!sums)
        return false;
      any |= *sums;
    }
    return any;
  }

private:
  /// The same of a value in `call`, or in none; false of what a sum starts
  /// from, nothing where it is added to something else.
  std::optional<bool> addsUp(Value value, nn::CallOp call) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return call ? addsUp(call.getOperand(argument.getArgNumber()), {})
                  : std::nullopt;
    Operation *op = value.getDefiningOp();
    if (op->hasTrait<nn::Rematerializable>())
      return false;
    if (auto reshard = dyn_cast<dist::ReshardOp>(op))
      return sumsOverTensor(reshard.getFrom()) &&
                     !sumsOverTensor(reshard.getTo())
                 ? std::optional(true)
                 : addsUp(reshard.getInput(), call);
    if (auto add = dyn_cast<nn::AddOp>(op)) {
      auto left = addsUp(add.getLhs(), call),
           right = addsUp(add.getRhs(), call);
      return left && right ? std::optional(*left || *right) : std::nullopt;
    }
    if (auto inner = dyn_cast<nn::CallOp>(op); inner && !call) {
      auto callee = symbols->lookup<nn::FuncOp>(inner.getCallee());
      unsigned number = cast<OpResult>(value).getResultNumber();
      return addsUp(
          callee.getBody().front().getTerminator()->getOperand(number), inner);
    }
    return std::nullopt;
  }

  OwningOpRef<ModuleOp> module;
  std::optional<SymbolTable> symbols;
  llvm::StringMap<SmallVector<nn::SetOp>> sets; ///< Of each state.
};

struct DeferSums : heddle::impl::ShardDeferSumsBase<DeferSums> {
  using Base::Base;

  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      auto strategy =
          dist::Strategy::fromDictionary(model.getStrategy().getValues());
      FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
      if (failed(mesh))
        return signalPassFailure();
      shard::ReplicaAxes replicas(*mesh);
      tensorAxes = replicas.tensorAxes;
      // Without replicas there is nothing that ZeRO splits.
      bool once = strategy.zero < 2 || replicas.ranks == 1;
      if (strategy.sequenceParallel && !tensorAxes.empty() && once)
        defer(model, strategy);
    }
    reasons.print(llvm::errs());
  }

private:
  void defer(nn::ModelOp model, const dist::Strategy &strategy) {
    Trial trial(model);
    if (failed(trial.run()))
      return;
    SymbolTable symbols(model);
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      auto members = bucket.getMembers().getAsRange<FlatSymbolRefAttr>();
      bool all = llvm::all_of(members, [&](FlatSymbolRefAttr member) {
        auto state = symbols.lookup<nn::StateOp>(member.getValue());
        return state.getRole() == "gradient" && trial.addsUp(member.getValue());
      });
      if (!all)
        continue;
      for (FlatSymbolRefAttr member : members)
        keepSum(symbols.lookup(member.getValue()));
      keepSum(bucket);
      if (printReasons)
        reasons.add(bucket.getSymName(), *bucket.getStorage(),
                    "tensor ranks share the tokens out (shard-defer-sums)");
      addUp(model, bucket, strategy);
      ++numDeferred;
    }
  }

  /// What a state or bucket holds is a part of the sum over `tensor`, too.
  void keepSum(Operation *op) {
    Builder builder(&getContext());
    auto type = cast<TypeAttr>(op->getAttr("type")).getValue();
    auto storage = op->getAttrOfType<TensorShardingAttr>("storage");
    if (!storage)
      storage = shard::wholeSharding(&getContext(),
                                     cast<RankedTensorType>(type).getRank());
    SmallVector<Attribute> axes(storage.getUnreduced().getValue());
    llvm::append_range(axes, tensorAxes);
    op->setAttr("storage",
                TensorShardingAttr::get(&getContext(), storage.getDims(),
                                        builder.getArrayAttr(axes)));
  }

  /// Where no replicas are, nothing adds the gradients up yet.
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
      auto to = TensorShardingAttr::get(&getContext(), from.getDims(),
                                        builder.getArrayAttr({}));
      auto sum = builder.create<dist::ReshardOp>(
          get.getLoc(), bucket.getType(), get.getValue(), from, to,
          builder.getStringAttr("nn.adamw"), shard::wireOf(strategy, builder),
          DenseI64ArrayAttr());
      get.getValue().replaceAllUsesExcept(sum.getOutput(), sum);
    });
  }

  SmallVector<Attribute> tensorAxes; ///< Of the mesh.
  shard::Reasons reasons;
};

} // namespace
