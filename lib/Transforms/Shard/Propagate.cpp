//===- Propagate.cpp - Gives every value one closed sharding --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Shard/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDPROPAGATE
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

using dist::FactorKind;
using dist::TensorShardingAttr;
using Axes = SmallVector<Attribute>;

/// The shardings of one function or step.
class Propagation {
public:
  explicit Propagation(MLIRContext *context) : builder(context) {}

  TensorShardingAttr of(Value value) {
    if (TensorShardingAttr sharding = shardings.lookup(value))
      return sharding;
    return whole(cast<RankedTensorType>(value.getType()).getRank());
  }
  void set(Value value, TensorShardingAttr sharding) {
    shardings[value] = sharding;
  }

  TensorShardingAttr whole(int64_t rank) {
    return make(SmallVector<Axes>(rank), {});
  }

  TensorShardingAttr make(ArrayRef<Axes> dims, ArrayRef<Attribute> unreduced) {
    SmallVector<Attribute> lists;
    for (const Axes &axes : dims)
      lists.push_back(builder.getArrayAttr(axes));
    return TensorShardingAttr::get(builder.getContext(),
                                   builder.getArrayAttr(lists),
                                   builder.getArrayAttr(unreduced));
  }

  /// Brings `operand` into the sharding that `op` needs.
  void reshard(OpOperand &operand, TensorShardingAttr to) {
    TensorShardingAttr from = of(operand.get());
    if (from == to)
      return;
    Operation *op = operand.getOwner();
    builder.setInsertionPoint(op);
    auto reshard = builder.create<dist::ReshardOp>(
        op->getLoc(), operand.get().getType(), operand.get(), from, to,
        builder.getStringAttr(op->getName().getStringRef()));
    set(reshard.getOutput(), to);
    operand.set(reshard.getOutput());
    ++numReshards;
  }

  /// Shards one computation after its operands. A partial sum is added to
  /// nothing before it is whole: every rank would add it once.
  void visitCompute(Operation *op, nn::ShardingRuleOpInterface ruled);
  /// What leaves the program must be no partial sum.
  void reduce(OpOperand &operand) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      return;
    TensorShardingAttr from = of(operand.get());
    if (!from.getUnreduced().empty())
      reshard(operand,
              TensorShardingAttr::get(builder.getContext(), from.getDims(),
                                      builder.getArrayAttr({})));
  }

  unsigned numReshards = 0;

private:
  /// The axes that split each factor of an operation.
  SmallVector<Axes> axesOfFactors(Operation *op,
                                  const dist::ShardingRule &rule);
  /// Adds `init` to the partial sum `sum` once that is whole.
  void addBehind(Value sum, Value init);

  OpBuilder builder;
  DenseMap<Value, TensorShardingAttr> shardings;
};

SmallVector<Axes> Propagation::axesOfFactors(Operation *op,
                                             const dist::ShardingRule &rule) {
  // Each factor takes the axes of the first operand that splits it; an axis
  // serves one factor.
  SmallVector<Axes> factors(rule.factors.size());
  llvm::DenseSet<Attribute> used;
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    if (dims.empty())
      continue;
    for (auto [list, factor] : llvm::zip(of(operand).getDims(), dims))
      if (factors[factor].empty() &&
          rule.factors[factor].kind != FactorKind::Whole)
        for (Attribute axis : cast<ArrayAttr>(list))
          if (used.insert(axis).second)
            factors[factor].push_back(axis);
  }
  return factors;
}

/// The axes over which the results are partial sums.
static Axes summedAxes(const dist::ShardingRule &rule, ArrayRef<Axes> factors) {
  Axes axes;
  for (auto [factor, list] : llvm::zip(rule.factors, factors))
    if (factor.kind == FactorKind::Reduction)
      llvm::append_range(axes, list);
  return axes;
}

/// Takes from an operation what its results are added to: pairs of a result
/// and that value.
static SmallVector<std::pair<Value, Value>> takeInits(Operation *op) {
  SmallVector<std::pair<Value, Value>> taken;
  auto take = [&](MutableOperandRange init, Value result) {
    for (Value value : OperandRange(init))
      taken.push_back({result, value});
    init.clear();
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<nn::EmbeddingGradOp, nn::LinearGradWeightOp, nn::SumRowsOp,
            nn::RmsNormGradWeightOp, nn::SumOp>(
          [&](auto sum) { take(sum.getInitMutable(), sum.getOutput()); })
      .Case([&](nn::LayerNormGradWeightOp grad) {
        take(grad.getWeightInitMutable(), grad.getWeightGrad());
        take(grad.getBiasInitMutable(), grad.getBiasGrad());
      });
  return taken;
}

void Propagation::addBehind(Value sum, Value init) {
  Operation *op = sum.getDefiningOp();
  builder.setInsertionPointAfter(op);
  auto add = builder.create<nn::AddOp>(op->getLoc(), sum.getType(), sum, init,
                                       ArrayAttr());
  sum.replaceAllUsesExcept(add.getOutput(), add);
  TensorShardingAttr parts = of(sum);
  auto whole = TensorShardingAttr::get(builder.getContext(), parts.getDims(),
                                       builder.getArrayAttr({}));
  reshard(add.getLhsMutable(), whole);
  reshard(add.getRhsMutable(), whole);
  set(add.getOutput(), whole);
  add.setShardingsAttr(builder.getArrayAttr({whole}));
}

void Propagation::visitCompute(Operation *op,
                               nn::ShardingRuleOpInterface ruled) {
  dist::ShardingRule rule = ruled.getShardingRule();
  SmallVector<Axes> factors = axesOfFactors(op, rule);
  SmallVector<std::pair<Value, Value>> inits;
  if (!summedAxes(rule, factors).empty())
    inits = takeInits(op);
  if (!inits.empty()) {
    rule = ruled.getShardingRule();
    factors = axesOfFactors(op, rule);
  }
  for (auto [operand, dims] : llvm::zip(op->getOpOperands(), rule.operands)) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    reduce(operand);
    if (dims.empty())
      continue;
    SmallVector<Axes> needed;
    for (int64_t factor : dims)
      needed.push_back(factors[factor]);
    reshard(operand, make(needed, {}));
  }
  Axes unreduced = summedAxes(rule, factors);
  SmallVector<Attribute> results;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    SmallVector<Axes> split;
    for (int64_t factor : dims)
      split.push_back(factors[factor]);
    set(result, make(split, unreduced));
    results.push_back(of(result));
  }
  op->setAttr("shardings", builder.getArrayAttr(results));
  for (auto [sum, init] : inits)
    addBehind(sum, init);
}

struct Propagate : heddle::impl::ShardPropagateBase<Propagate> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      addMesh(model);
      for (auto step : model.getOps<nn::StepOp>())
        if (failed(shardStep(model, step)))
          return signalPassFailure();
    }
  }

private:
  void addMesh(nn::ModelOp model) {
    auto strategy =
        dist::Strategy::fromDictionary(model.getStrategy().getValues());
    OpBuilder builder = OpBuilder::atBlockBegin(model.getBodyBlock());
    SmallVector<Attribute> axes;
    std::pair<StringRef, int64_t> sizes[] = {{"pipe", strategy.pipe},
                                             {"data", strategy.data},
                                             {"seq", strategy.sequence},
                                             {"tensor", strategy.tensor}};
    for (auto [name, size] : sizes)
      axes.push_back(dist::MeshAxisAttr::get(&getContext(), name, size));
    mesh = builder.create<dist::MeshOp>(model.getLoc(), "mesh",
                                        builder.getArrayAttr(axes));
  }

  LogicalResult shardStep(nn::ModelOp model, nn::StepOp step) {
    Propagation propagation(&getContext());
    Builder builder(&getContext());
    // The rows of ids and labels: the dimension before the tokens.
    for (BlockArgument argument : step.getArguments()) {
      int64_t rank = cast<RankedTensorType>(argument.getType()).getRank();
      SmallVector<Axes> dims(rank);
      if (rank >= 2 && mesh.getAxisSize("data") > 1)
        dims[rank - 2].push_back(builder.getStringAttr("data"));
      propagation.set(argument, propagation.make(dims, {}));
    }
    LogicalResult done = visit(model, step.getBody().front(), propagation);
    step.setArgShardingsAttr(list(propagation, step.getArguments()));
    step.setResultShardingsAttr(list(
        propagation, step.getBody().back().getTerminator()->getOperands()));
    numReshards += propagation.numReshards;
    return done;
  }

  ArrayAttr list(Propagation &propagation, ValueRange values) {
    SmallVector<Attribute> attributes;
    for (Value value : values)
      attributes.push_back(isa<RankedTensorType>(value.getType())
                               ? Attribute(propagation.of(value))
                               : UnitAttr::get(&getContext()));
    return ArrayAttr::get(&getContext(), attributes);
  }

  LogicalResult visit(nn::ModelOp model, Block &block,
                      Propagation &propagation) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op)) {
        propagation.visitCompute(&op, ruled);
      } else if (auto slice = dyn_cast<nn::MicroBatchOp>(op)) {
        auto from = propagation.of(slice.getInput());
        propagation.set(
            slice.getOutput(),
            TensorShardingAttr::get(
                &getContext(),
                ArrayAttr::get(&getContext(),
                               from.getDims().getValue().drop_front()),
                from.getUnreduced()));
      } else if (auto loop = dyn_cast<nn::MicroBatchesOp>(op)) {
        if (failed(visit(model, loop.getBody().front(), propagation)))
          return failure();
      } else if (auto call = dyn_cast<nn::CallOp>(op)) {
        if (failed(visitCall(model, call, propagation)))
          return failure();
      } else if (isa<nn::SetOp, nn::ReturnOp, nn::KeepOp>(op)) {
        for (OpOperand &operand : op.getOpOperands())
          propagation.reduce(operand);
      }
    }
    return success();
  }

  /// The boundary of a layer is one for all its instances: the first call
  /// decides, the others are resharded to it.
  LogicalResult visitCall(nn::ModelOp model, nn::CallOp call,
                          Propagation &propagation) {
    auto callee = model.lookupSymbol<nn::FuncOp>(call.getCalleeAttr());
    for (OpOperand &operand : call->getOpOperands())
      propagation.reduce(operand);
    if (!callee.getArgShardings()) {
      Propagation inner(&getContext());
      for (auto [argument, operand] :
           llvm::zip(callee.getArguments(), call.getOperands()))
        if (isa<RankedTensorType>(operand.getType()))
          inner.set(argument, propagation.of(operand));
      if (failed(visit(model, callee.getBody().front(), inner)))
        return failure();
      callee.setArgShardingsAttr(list(inner, callee.getArguments()));
      callee.setResultShardingsAttr(
          list(inner, callee.getBody().back().getTerminator()->getOperands()));
      numReshards += inner.numReshards;
    }
    for (auto [operand, sharding] :
         llvm::zip(call->getOpOperands(), *callee.getArgShardings()))
      if (auto wanted = dyn_cast<TensorShardingAttr>(sharding))
        propagation.reshard(operand, wanted);
    for (auto [result, sharding] :
         llvm::zip(call.getResults(), *callee.getResultShardings()))
      if (auto given = dyn_cast<TensorShardingAttr>(sharding))
        propagation.set(result, given);
    return success();
  }

  dist::MeshOp mesh;
};

} // namespace
