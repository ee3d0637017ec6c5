//===- ShardingPlan.cpp - How every value is to be split ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardingPlan.h"
#include "Factors.h"
#include "Reasons.h"
#include "Splits.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::AxisRole;
using dist::TensorShardingAttr;

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

TensorShardingAttr ShardingPlan::of(Value value) const {
  if (TensorShardingAttr sharding = shardings.lookup(value))
    return sharding;
  auto type = cast<RankedTensorType>(value.getType());
  return wholeSharding(value.getContext(), type.getRank());
}

TensorShardingAttr ShardingPlan::madeAs(Value value) const {
  TensorShardingAttr sharding = made.lookup(value);
  return sharding ? sharding : of(value);
}

const Need *ShardingPlan::needOf(OpOperand &operand) const {
  auto found = needs.find(&operand);
  return found == needs.end() ? nullptr : &found->second;
}

TensorShardingAttr ShardingPlan::takenAs(OpOperand &operand) const {
  const Need *need = needOf(operand);
  return need ? need->sharding : of(operand.get());
}

const Sequel *ShardingPlan::sequelOf(Value result) const {
  auto found = sequels.find(result);
  return found == sequels.end() ? nullptr : &found->second;
}

bool heddle::shard::isMadeAnywhere(Value value) {
  auto ruled = value.getDefiningOp<nn::ShardingRuleOpInterface>();
  return ruled && ruled->hasTrait<nn::Rematerializable>();
}

//===----------------------------------------------------------------------===//
// The plan of a model
//===----------------------------------------------------------------------===//

namespace heddle::shard {

/// Makes the plan. Visits the operations of each step in order, and the body of
/// a function at its first call.
class PlanBuilder {
public:
  PlanBuilder(ShardingPlan &plan, nn::ModelOp model, dist::MeshOp mesh,
              Reasons *reasons)
      : plan(plan), mesh(mesh), reasons(reasons), symbols(model),
        builder(model.getContext()), strategy(model.getStrategy().getValue()) {}

  LogicalResult visitStep(nn::StepOp step);

private:
  TensorShardingAttr of(Value value) const { return plan.of(value); }
  void set(Value value, TensorShardingAttr sharding) {
    plan.shardings[value] = sharding;
  }
  TensorShardingAttr whole(Value value) {
    return wholeSharding(builder.getContext(),
                         cast<RankedTensorType>(value.getType()).getRank());
  }
  TensorShardingAttr make(ArrayRef<Axes> dims, ArrayRef<Attribute> unreduced);
  TensorShardingAttr withoutSums(TensorShardingAttr sharding) {
    return TensorShardingAttr::get(builder.getContext(), sharding.getDims(),
                                   builder.getArrayAttr({}));
  }

  /// Plans a reshard of the operand to the sharding `to`.
  void need(OpOperand &operand, TensorShardingAttr to,
            ArrayRef<int64_t> segments = {});
  void noteReshard(Value value, Operation *op, const Need &need,
                   const Twine &user);

  LogicalResult visit(Block &block);
  LogicalResult visit(Operation &op);
  LogicalResult visitCompute(nn::ShardingRuleOpInterface op);
  LogicalResult visitCall(nn::CallOp call);
  LogicalResult visitCallee(nn::FuncOp callee, nn::CallOp call);
  void visitSet(nn::SetOp set);
  void visitPack(nn::PackOp pack);
  void visitReshard(dist::ReshardOp reshard);

  /// Plans the reshards of a computation's operands to the shardings that
  /// follow from `factors`, the mesh axes that split its dimensions. Operands
  /// that are added to the result only after its reduction are left out.
  void needOperands(Operation *op, const dist::ShardingRule &rule,
                    const Factors &factors);
  /// Plans to move the addition of the operand `init` after the reduction of
  /// `sum`, which is a partial sum.
  void addAfterSum(OpResult sum, OpOperand &init);
  /// `tokens` lists the mesh axes that split the tokens of attention's
  /// operands. Attention itself splits heads over these axes. Plans the
  /// all-to-all after attention that splits tokens over these axes again.
  void returnTokens(Operation *op, const dist::ShardingRule &rule,
                    ArrayAttr tokens);
  /// Plans the reduction of an activation that is a partial sum at the boundary
  /// of a layer. Gradients of parameters are partial sums, too, but are not
  /// reduced here: they are first summed over micro-batches.
  void addUpAtBoundary(OpOperand &operand);
  /// Chooses the sharding of an argument whose value every rank can compute
  /// without communication. If all operations of the layer that read the
  /// argument need the same sharding, the argument gets this sharding.
  void takeSplit(BlockArgument argument);
  /// Adds to `activations` the results of `op` that are partial sums over a
  /// split dimension other than batch rows and tokens.
  void noteSums(Operation *op, const dist::ShardingRule &rule,
                const Factors &factors);

  ShardingPlan &plan;
  dist::MeshOp mesh;
  Reasons *reasons;
  SymbolTable symbols;
  Builder builder;
  dist::Strategy strategy;
  Surroundings around; ///< The function or step that is visited.
  /// The activations that are partial sums, because an operation has summed
  /// over a split dimension other than batch rows and tokens, for example over
  /// the input features of a matrix product. (A partial sum over rows or tokens
  /// is a gradient of a parameter instead.) Each activation is mapped to the
  /// index of its token dimension; nullopt if it has none.
  DenseMap<Value, std::optional<size_t>> activations;
  /// The reshards that have been reported. The key is the resharded value, the
  /// new sharding, and the block of the operation that needs the reshard.
  llvm::DenseSet<std::tuple<Value, Attribute, Block *>> noted;
};

TensorShardingAttr PlanBuilder::make(ArrayRef<Axes> dims,
                                     ArrayRef<Attribute> unreduced) {
  SmallVector<Attribute> lists;
  for (const Axes &axes : dims)
    lists.push_back(builder.getArrayAttr(axes));
  return TensorShardingAttr::get(builder.getContext(),
                                 builder.getArrayAttr(lists),
                                 builder.getArrayAttr(unreduced));
}

void PlanBuilder::need(OpOperand &operand, TensorShardingAttr to,
                       ArrayRef<int64_t> segments) {
  Need need{to, SmallVector<int64_t>(segments)};
  if (reasons)
    noteReshard(operand.get(), operand.getOwner(), need,
                nameOf(operand.getOwner()));
  plan.needs[&operand] = std::move(need);
}

/// Reports the reshard that `need` will cause, for the option `print-reasons`.
/// Reports nothing if the value already has the needed sharding, or if an equal
/// reshard has been reported.
void PlanBuilder::noteReshard(Value value, Operation *op, const Need &need,
                              const Twine &user) {
  bool isWhole = need.sharding.getUnreduced().empty();
  if (of(value) == need.sharding || (isWhole && isMadeAnywhere(value)))
    return;
  if (const Sequel *sequel = plan.sequelOf(value);
      sequel && !sequel->init && plan.madeAs(value) == need.sharding &&
      ArrayRef(sequel->need.segments) == ArrayRef(need.segments))
    return;
  if (auto back = value.getDefiningOp<dist::ReshardOp>();
      back && isWhole && back->getBlock() == op->getBlock() &&
      of(back.getInput()) == need.sharding && need.segments.empty())
    return;
  if (noted.insert({value, need.sharding, op->getBlock()}).second)
    reasons->addReshard(op, value, of(value), need.sharding, user);
}

//===----------------------------------------------------------------------===//
// Computations
//===----------------------------------------------------------------------===//

void PlanBuilder::needOperands(Operation *op, const dist::ShardingRule &rule,
                               const Factors &factors) {
  for (auto [operand, dims] : llvm::zip(op->getOpOperands(), rule.operands)) {
    if (!isa<RankedTensorType>(operand.get().getType()) ||
        factors.later.contains(&operand))
      continue;
    SmallVector<Axes> needed;
    for (int64_t factor : dims)
      needed.push_back(factors.axes[factor]);
    if (dims.empty())
      needed.resize(cast<RankedTensorType>(operand.get().getType()).getRank());
    ArrayRef<Attribute> sums;
    if (factors.addsUp || factors.sums.contains(&operand))
      sums = factors.unreduced;
    else if (readsSummand(operand))
      sums = of(operand.get()).getUnreduced().getValue();
    need(operand, make(needed, sums),
         rule.segmentsOfOperand(operand.getOperandNumber(),
                                std::max<int64_t>(dims.size(), 1) - 1));
  }
}

LogicalResult PlanBuilder::visitCompute(nn::ShardingRuleOpInterface op) {
  dist::ShardingRule rule = op.getShardingRule();
  FactorFinder finder(plan, around, activations);
  Factors factors = finder.find(op, rule);
  ArrayAttr tokens; // The axes that split the tokens of attention's operand.
  if (op->hasTrait<nn::MixesPositions>())
    tokens = cast<ArrayAttr>(of(op->getOperand(0)).getDims()[1]);
  if (failed(verifySplits(op, rule, factors.axes, mesh)))
    return failure();
  needOperands(op, rule, factors);
  SmallVector<Attribute> results;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    SmallVector<Axes> split;
    for (int64_t factor : dims)
      split.push_back(factors.axes[factor]);
    set(result, make(split, factors.unreduced));
    results.push_back(of(result));
  }
  noteSums(op, rule, factors);
  if (reasons)
    reasons->addResults(op, builder.getArrayAttr(results), factors.origins);
  if (tokens && !tokens.empty())
    returnTokens(op, rule, tokens);
  for (size_t number = nn::initsOf(op).size(); number-- > 0;) {
    nn::Init init = nn::initsOf(op)[number];
    if (OpOperand &operand = init.operand[0]; factors.later.contains(&operand))
      addAfterSum(cast<OpResult>(init.result), operand);
  }
  return success();
}

void PlanBuilder::noteSums(Operation *op, const dist::ShardingRule &rule,
                           const Factors &factors) {
  // `activations` has the partial sums that are not gradients of parameters.
  // The operation's results belong to them if the operation adds values of
  // `activations`, if it is linear in one of them, or if it sums over a split
  // dimension other than batch rows and tokens. A sum over rows or tokens is a
  // gradient of a parameter.
  bool sums = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
    return (factors.addsUp || factors.sums.contains(&operand)) &&
           activations.contains(operand.get());
  });
  for (auto [factor, axes] : llvm::zip(rule.factors, factors.axes))
    sums |= factor.kind == dist::FactorKind::Reduction && !axes.empty() &&
            !isRow(factor);
  if (!sums)
    return;
  int64_t token = rule.indexOf(dist::FactorRole::Tokens);
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    auto tokens = llvm::find(dims, token);
    activations[result] = tokens == dims.end()
                              ? std::nullopt
                              : std::optional<size_t>(tokens - dims.begin());
  }
}

void PlanBuilder::addAfterSum(OpResult sum, OpOperand &init) {
  // If `init`, the operand to be added, is itself a partial sum over some of
  // the mesh axes of `sum`, reduce `sum` only over the other axes before the
  // addition.
  TensorShardingAttr from = of(sum), to = withoutSums(from);
  auto before = of(init.get()).getUnreduced();
  if (llvm::all_of(before, [&](Attribute axis) {
        return llvm::is_contained(from.getUnreduced(), axis);
      }))
    to = TensorShardingAttr::get(builder.getContext(), to.getDims(), before);
  if (reasons) {
    noteReshard(sum, sum.getOwner(), {to, {}}, nameOfAddition(sum.getOwner()));
    noteReshard(init.get(), sum.getOwner(), {to, {}},
                nameOfAddition(sum.getOwner()));
    reasons->addAddition(sum.getOwner(), to);
  }
  plan.made[sum] = from;
  plan.sequels[sum] = {{to, {}}, &init};
  set(sum, to);
}

void PlanBuilder::returnTokens(Operation *op, const dist::ShardingRule &rule,
                               ArrayAttr tokens) {
  for (OpResult result : op->getResults()) {
    unsigned number = result.getResultNumber();
    if (rule.results[number].size() != 3 ||
        rule.factors[rule.results[number][1]].role != dist::FactorRole::Tokens)
      continue;
    TensorShardingAttr from = of(result);
    SmallVector<Axes> dims;
    for (auto axes : from.getDims().getAsRange<ArrayAttr>())
      dims.emplace_back(axes.getValue());
    dims[1].assign(tokens.begin(), tokens.end());
    llvm::erase_if(dims[2], [&](Attribute axis) {
      return llvm::is_contained(tokens, axis);
    });
    TensorShardingAttr to = make(dims, {});
    if (from == to)
      continue;
    if (reasons)
      reasons->addReshard(op, result, from, to, "what follows attention");
    plan.made[result] = from;
    plan.sequels[result] = {
        {to, SmallVector<int64_t>(rule.segmentsOfResult(number, 2))}, nullptr};
    set(result, to);
  }
}

//===----------------------------------------------------------------------===//
// Everything else
//===----------------------------------------------------------------------===//

/// Plans a reshard of the written value to the sharding of the state's storage.
/// Zeros need no reshard, because they can be created in this sharding.
void PlanBuilder::visitSet(nn::SetOp op) {
  TensorShardingAttr storage = storageOf(symbols.lookup(op.getState()));
  auto fill = op.getValue().getDefiningOp<nn::FillOp>();
  if (fill && fill.getValue().isZero()) {
    set(fill.getOutput(), storage);
    if (reasons)
      reasons->addResult(fill, storage, "zeros for " + op.getState());
  }
  need(op.getValueMutable(), storage);
}

/// Chooses the sharding of a flat value, in which nn.pack lays its operands
/// (the members) side by side. The flat value is a partial sum over a mesh axis
/// if all members are. It is split over an axis if any member is.
void PlanBuilder::visitPack(nn::PackOp pack) {
  SmallVector<Axes> split(1);
  // The mesh axes over which all members are partial sums.
  Axes sums;
  for (Attribute axis : of(pack.getMembers().front()).getUnreduced())
    if (llvm::all_of(pack.getMembers(), [&](Value member) {
          return llvm::is_contained(of(member).getUnreduced(), axis);
        }))
      sums.push_back(axis);
  for (OpOperand &member : pack->getOpOperands()) {
    TensorShardingAttr sharding = of(member.get());
    need(member,
         TensorShardingAttr::get(builder.getContext(), sharding.getDims(),
                                 builder.getArrayAttr(sums)));
    for (auto axes : sharding.getDims().getAsRange<ArrayAttr>())
      for (Attribute axis : axes)
        if (!llvm::is_contained(split[0], axis))
          split[0].push_back(axis);
  }
  set(pack.getFlat(), make(split, sums));
  if (reasons)
    reasons->addResult(pack, of(pack.getFlat()), "as its members");
}

void PlanBuilder::visitReshard(dist::ReshardOp reshard) {
  set(reshard.getOutput(), reshard.getTo());
  StringRef reason = reshard.getReason();
  if (reasons)
    reasons->addReshard(
        reshard, reshard.getInput(), of(reshard.getInput()), reshard.getTo(),
        reason.starts_with("nn.") ? reason.str()
                                  : ("the bucket " + reason).str());
}

LogicalResult PlanBuilder::visit(Block &block) {
  for (Operation &op : block)
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult PlanBuilder::visit(Operation &op) {
  if (auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op))
    return visitCompute(ruled);
  if (auto call = dyn_cast<nn::CallOp>(op))
    return visitCall(call);
  if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
    return visit(loop.getBody().front());
  if (auto slice = dyn_cast<nn::MicroBatchOp>(op))
    set(slice.getOutput(), dropFirst(of(slice.getInput())));
  if (auto get = dyn_cast<nn::GetOp>(op))
    set(get.getValue(), storageOf(symbols.lookup(get.getState())));
  if (auto set = dyn_cast<nn::SetOp>(op))
    visitSet(set);
  if (auto pack = dyn_cast<nn::PackOp>(op))
    visitPack(pack);
  if (auto unpack = dyn_cast<nn::UnpackOp>(op))
    for (auto [member, sharding] :
         llvm::zip(unpack.getMembers(),
                   unpack.getShardingsAttr().getAsRange<TensorShardingAttr>()))
      set(member, sharding);
  if (auto reshard = dyn_cast<dist::ReshardOp>(op))
    visitReshard(reshard);
  if (auto stack = dyn_cast<dist::StackOp>(op)) {
    need(stack.getInputMutable(), stack.getFrom());
    set(stack.getOutput(), stack.getTo());
  }
  // nn.keep must not dump a partial sum, so the value is reduced first. Each
  // rank dumps its shard.
  if (auto kept = dyn_cast<nn::KeepOp>(op))
    need(kept.getValueMutable(), withoutSums(of(kept.getValue())));
  if (isa<nn::ReturnOp>(op))
    for (OpOperand &operand : op.getOpOperands()) {
      if (isa<nn::FuncOp>(op.getParentOp()))
        addUpAtBoundary(operand);
      if (isa<nn::StepOp>(op.getParentOp()))
        need(operand, whole(operand.get()));
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Boundaries
//===----------------------------------------------------------------------===//

LogicalResult PlanBuilder::visitStep(nn::StepOp step) {
  around = {};
  bool isSplit = step.getKind() == nn::ProgramKind::Train ||
                 step.getKind() == nn::ProgramKind::Eval;
  // Split the inputs: the mesh axis `data` splits rows, and the mesh axis `seq`
  // splits the tokens of each row.
  for (auto [argument, port] : llvm::zip(
           step.getArguments(), step.getInputs().getAsRange<nn::PortAttr>())) {
    int64_t rank = cast<RankedTensorType>(argument.getType()).getRank();
    SmallVector<Axes> dims(rank);
    if (port.isOfBatch() && !port.isOfTokens() && isSplit)
      dims[rank - 1] = mesh.getAxesOf(AxisRole::Data);
    if (port.isOfTokens() && isSplit) {
      dims[rank - 2] = mesh.getAxesOf(AxisRole::Data);
      dims[rank - 1] = mesh.getAxesOf(AxisRole::Sequence);
    }
    if (port.isOfTokens()) {
      around.tokenAxes = {dims[rank - 2], dims[rank - 1]};
      around.vocabularyAxes = mesh.getAxesOf(AxisRole::Tensor);
      around.vocabularyRanks = mesh.getSize(AxisRole::Tensor);
      // With sequence parallelism, the mesh axis `tensor` also splits the
      // tokens of activations, except between a matrix product whose weight it
      // splits by columns and the next product, whose weight it splits by rows.
      around.sharesTokens = strategy.sequenceParallel &&
                            !around.vocabularyAxes.empty() && isSplit;
      if (around.sharesTokens)
        llvm::append_range(around.tokenAxes[1], around.vocabularyAxes);
    }
    set(argument, make(dims, {}));
    if (reasons)
      reasons->addInput(argument, of(argument));
  }
  return visit(step.getBody().front());
}

void PlanBuilder::addUpAtBoundary(OpOperand &operand) {
  auto found = activations.find(operand.get());
  if (found == activations.end())
    return;
  // Only partial sums over the mesh axis `tensor` are reduced here. A partial
  // sum over replicas is a gradient, and shard-partition-states decides when it
  // is reduced.
  auto isOfTensor = [](Attribute axis) {
    return dist::roleOf(axis) == AxisRole::Tensor;
  };
  Axes unreduced(of(operand.get()).getUnreduced().getValue());
  if (llvm::none_of(unreduced, isOfTensor))
    return;
  // With sequence parallelism, a value that has no dimension of tokens is a
  // gradient, such as that of a norm's weight. Gradients are not reduced here,
  // but later, when they are summed over the tokens of all ranks.
  if (around.sharesTokens && !found->second)
    return;
  TensorShardingAttr from = of(operand.get());
  SmallVector<Axes> dims;
  for (auto axes : from.getDims().getAsRange<ArrayAttr>())
    dims.emplace_back(axes.getValue());
  if (around.sharesTokens && found->second)
    llvm::copy_if(unreduced, std::back_inserter(dims[*found->second]),
                  isOfTensor);
  llvm::erase_if(unreduced, isOfTensor);
  need(operand, make(dims, unreduced));
}

void PlanBuilder::takeSplit(BlockArgument argument) {
  TensorShardingAttr wanted;
  for (OpOperand &use : argument.getUses()) {
    const Need *need = plan.needOf(use);
    if (!need || !need->segments.empty() ||
        !need->sharding.getUnreduced().empty() ||
        (wanted && wanted != need->sharding))
      return;
    wanted = need->sharding;
  }
  if (wanted)
    set(argument, wanted);
}

LogicalResult PlanBuilder::visitCallee(nn::FuncOp callee, nn::CallOp call) {
  for (auto [argument, operand] :
       llvm::zip(callee.getArguments(), call->getOpOperands()))
    if (isa<RankedTensorType>(argument.getType())) {
      set(argument, plan.takenAs(operand));
      if (reasons)
        reasons->addArgument(argument, of(argument), operand.get());
    }
  Surroundings outside = around;
  around = {};
  around.sharesTokens = outside.sharesTokens;
  if (failed(visit(callee.getBody().front())))
    return failure();
  around = outside;
  for (auto [argument, operand] :
       llvm::zip(callee.getArguments(), call.getOperands()))
    if (isMadeAnywhere(operand))
      takeSplit(argument);
  return success();
}

/// A function is compiled once, so all its calls have the same shardings of
/// arguments and results. The first call decides the shardings. The operands of
/// other calls are resharded to them.
LogicalResult PlanBuilder::visitCall(nn::CallOp call) {
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  for (OpOperand &operand : call->getOpOperands())
    addUpAtBoundary(operand);
  if (plan.reached.insert(callee).second && failed(visitCallee(callee, call)))
    return failure();
  for (auto [operand, argument] :
       llvm::zip(call->getOpOperands(), callee.getArguments()))
    if (isa<RankedTensorType>(argument.getType()))
      need(operand, of(argument));
  for (auto [result, operand] :
       llvm::zip(call.getResults(),
                 callee.getBody().back().getTerminator()->getOpOperands()))
    if (isa<RankedTensorType>(result.getType()))
      set(result, plan.takenAs(operand));
  return success();
}

} // namespace heddle::shard

ShardingPlan::ShardingPlan(nn::ModelOp model, Reasons *reasons) {
  FailureOr<dist::MeshOp> mesh = meshOf(model);
  if (failed(mesh)) {
    complete = false;
    return;
  }
  PlanBuilder builder(*this, model, *mesh, reasons);
  for (auto step : model.getOps<nn::StepOp>())
    if (failed(builder.visitStep(step))) {
      complete = false;
      return;
    }
}
