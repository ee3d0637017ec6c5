//===- Propagate.cpp - Gives every value one closed sharding --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "Splits.h"
#include "Units.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDPROPAGATE
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

using dist::AxisRole;
using dist::FactorKind;
using dist::FactorRole;
using dist::TensorShardingAttr;
using Axes = SmallVector<Attribute>;

/// The shardings of one function or step.
class Propagation {
public:
  /// `reasons` are noted when there are any.
  Propagation(MLIRContext *context, shard::Reasons *reasons)
      : builder(context), reasons(reasons) {}

  TensorShardingAttr of(Value value) {
    if (TensorShardingAttr sharding = shardings.lookup(value))
      return sharding;
    return whole(cast<RankedTensorType>(value.getType()).getRank());
  }
  void set(Value value, TensorShardingAttr sharding) {
    shardings[value] = sharding;
  }

  TensorShardingAttr whole(int64_t rank) {
    return shard::wholeSharding(builder.getContext(), rank);
  }

  TensorShardingAttr make(ArrayRef<Axes> dims, ArrayRef<Attribute> unreduced) {
    SmallVector<Attribute> lists;
    for (const Axes &axes : dims)
      lists.push_back(builder.getArrayAttr(axes));
    return TensorShardingAttr::get(builder.getContext(),
                                   builder.getArrayAttr(lists),
                                   builder.getArrayAttr(unreduced));
  }

  /// Brings `operand` into the sharding that its operation needs.
  void reshard(OpOperand &operand, TensorShardingAttr to,
               ArrayRef<int64_t> segments = {}) {
    TensorShardingAttr from = of(operand.get());
    if (from == to)
      return;
    Operation *op = operand.getOwner();
    if (isMadeAnywhere(operand.get()) && to.getUnreduced().empty()) {
      operand.set(madeAs(operand.get(), to));
      return;
    }
    // What came here by a reshard is still there as it was.
    if (auto back = operand.get().getDefiningOp<dist::ReshardOp>();
        back && back->getBlock() == op->getBlock() && back.getFrom() == to &&
        to.getUnreduced().empty() &&
        back.getSegments().value_or(ArrayRef<int64_t>()) == segments) {
      operand.set(back.getInput());
      return;
    }
    Value &known = resharded[{operand.get(), to}];
    if (!known || known.getParentBlock() != op->getBlock()) {
      builder.setInsertionPoint(op);
      known = create(op, operand.get(), to, segments);
    }
    operand.set(known);
  }

  /// Whether a rank can make any part of the value: it is made of no tensor.
  static bool isMadeAnywhere(Value value) {
    auto ruled = value.getDefiningOp<nn::ShardingRuleOpInterface>();
    return ruled && llvm::none_of(ruled->getOperandTypes(),
                                  llvm::IsaPred<RankedTensorType>);
  }
  /// Such a value, split so.
  Value madeAs(Value value, TensorShardingAttr to) {
    Operation *op = value.getDefiningOp();
    if (!value.hasOneUse()) {
      builder.setInsertionPointAfter(op);
      op = builder.clone(*op);
    }
    op->setAttr("shardings", builder.getArrayAttr({to}));
    set(op->getResult(0), to);
    return op->getResult(0);
  }

  /// Shards one computation after its operands. A partial sum is added to
  /// nothing before it is whole: every rank would add it once.
  LogicalResult visitCompute(Operation *op, nn::ShardingRuleOpInterface ruled,
                             dist::MeshOp mesh);
  TensorShardingAttr withoutSums(TensorShardingAttr sharding) {
    return TensorShardingAttr::get(builder.getContext(), sharding.getDims(),
                                   builder.getArrayAttr({}));
  }
  /// Adds up what crosses the boundary of a layer, if it is a partial sum over
  /// anything but rows: only gradients of parameters grow over micro-batches.
  void addUpAtBoundary(OpOperand &operand);
  void returnTokens(Operation *op, const dist::ShardingRule &rule,
                    ArrayAttr tokens);
  /// A flat value is a partial sum where its members are, and split where any
  /// of them is.
  void visitPack(nn::PackOp pack);

  unsigned numReshards = 0;
  /// Whether ranks along `tensor` share the tokens out between products.
  bool sharesTokens = false;
  /// The axes that split tables of tokens, by rows.
  Axes vocabularyAxes;
  /// The axes that split the rows and the tokens of the step's sequences.
  SmallVector<Axes> tokenAxes = SmallVector<Axes>(2);

private:
  /// The axes that split each factor of an operation.
  SmallVector<Axes> axesOfFactors(Operation *op,
                                  const dist::ShardingRule &rule);
  /// The axes over which all that an addition adds is a partial sum: so is what
  /// it makes.
  ArrayAttr sumsOfAddends(Operation *op);
  /// Notes that the results are partial sums over other factors than rows.
  void noteSums(Operation *op, const dist::ShardingRule &rule,
                ArrayRef<Axes> factors, bool passesOn);
  /// Adds `init` to the partial sum `sum` once that is whole.
  void addBehind(Value sum, Value init);
  /// The value in another sharding, for `op`; `user` is what reasons call that,
  /// where it is not the operation's name.
  Value create(Operation *op, Value value, TensorShardingAttr to,
               ArrayRef<int64_t> segments, StringRef user = "");

  OpBuilder builder;
  shard::Reasons *reasons;
  shard::Origins origins; ///< Of the axes of the last operation's factors.
  DenseMap<Value, TensorShardingAttr> shardings;
  /// Partial sums over other factors than rows, and their dimension of tokens.
  DenseMap<Value, std::optional<size_t>> activations;
  DenseMap<std::pair<Value, Attribute>, Value> resharded;
};

/// Whether the factor is one of the leading dimensions of activations.
static bool isRow(const dist::Factor &factor) {
  return factor.role == FactorRole::Rows || factor.role == FactorRole::Tokens;
}

Value Propagation::create(Operation *op, Value value, TensorShardingAttr to,
                          ArrayRef<int64_t> segments, StringRef user) {
  auto reshard = builder.create<dist::ReshardOp>(
      op->getLoc(), value.getType(), value, of(value), to,
      builder.getStringAttr(op->getName().getStringRef()), TypeAttr(),
      segments.empty() ? DenseI64ArrayAttr()
                       : builder.getDenseI64ArrayAttr(segments));
  set(reshard.getOutput(), to);
  ++numReshards;
  if (reasons)
    reasons->addReshard(reshard, user.empty() ? shard::nameOf(op) : user.str());
  return reshard.getOutput();
}

SmallVector<Axes> Propagation::axesOfFactors(Operation *op,
                                             const dist::ShardingRule &rule) {
  // Each factor takes the axes of the first operand that splits it, and those
  // by which a later one splits it further; an axis serves one factor. Features
  // come before rows: parameters are not gathered where their activations can
  // be.
  SmallVector<Axes> factors(rule.factors.size());
  origins.clear();
  auto give = [&](int64_t factor, Attribute axis, Value operand,
                  StringRef why = "") {
    shard::Origin origin{operand, why, rule.factors[factor].name,
                         rule.factors[factor].kind == FactorKind::Reduction};
    if (origins.insert({axis, std::move(origin)}).second)
      factors[factor].push_back(axis);
  };
  // A rank makes the gradient of its own rows of the vocabulary.
  if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op);
      grad && !grad.getIds().getDefiningOp<nn::PositionsOp>())
    for (Attribute axis : vocabularyAxes)
      give(rule.indexOf(FactorRole::Vocabulary), axis, Value(),
           "a rank makes the gradient of its rows");
  for (bool rows : {false, true})
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
      if (dims.empty())
        continue;
      for (auto [list, factor] : llvm::zip(of(operand).getDims(), dims)) {
        const dist::Factor &which = rule.factors[factor];
        auto axes = cast<ArrayAttr>(list).getValue();
        const Axes &taken = factors[factor];
        if (isRow(which) != rows || which.kind == FactorKind::Whole ||
            axes.take_front(taken.size()) != ArrayRef<Attribute>(taken))
          continue;
        for (Attribute axis : axes.drop_front(taken.size()))
          give(factor, axis, operand);
      }
    }
  // Attention sees whole sequences: the axes that split its tokens split its
  // heads in their place (Jacobs et al., arXiv 2309.14509).
  if (op->hasTrait<nn::MixesPositions>())
    for (Attribute axis : cast<ArrayAttr>(of(op->getOperand(0)).getDims()[1]))
      give(rule.indexOf(FactorRole::Heads), axis, Value(),
           "attention sees whole sequences");
  // Ranks that share the tokens out scatter a product's sum over them.
  int64_t tokens = rule.indexOf(FactorRole::Tokens);
  if (sharesTokens && tokens >= 0 &&
      rule.factors[tokens].kind != FactorKind::Whole && !sumsOfAddends(op))
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      if (activations.contains(operand) && llvm::is_contained(dims, tokens))
        for (Attribute axis : of(operand).getUnreduced())
          if (dist::roleOf(axis) == AxisRole::Tensor)
            give(tokens, axis, Value(), "ranks share the tokens out");
  // Positions have no operands: they are the tokens' of the step.
  if (isa<nn::PositionsOp>(op))
    for (auto [dim, factor] : llvm::enumerate(rule.results[0]))
      for (Attribute axis : tokenAxes[dim])
        give(factor, axis, Value(), "it splits the step's tokens");
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

ArrayAttr Propagation::sumsOfAddends(Operation *op) {
  auto add = dyn_cast<nn::AddOp>(op);
  if (!add)
    return {};
  TensorShardingAttr left = of(add.getLhs()), right = of(add.getRhs());
  bool same = left == right && !left.getUnreduced().empty();
  return same ? left.getUnreduced() : ArrayAttr();
}

void Propagation::noteSums(Operation *op, const dist::ShardingRule &rule,
                           ArrayRef<Axes> factors, bool passesOn) {
  bool sums = passesOn && llvm::any_of(op->getOperands(), [&](Value operand) {
                return activations.contains(operand);
              });
  for (auto [factor, axes] : llvm::zip(rule.factors, factors))
    sums |=
        factor.kind == FactorKind::Reduction && !axes.empty() && !isRow(factor);
  if (!sums)
    return;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    auto tokens = llvm::find(dims, rule.indexOf(FactorRole::Tokens));
    activations[result] = tokens == dims.end()
                              ? std::nullopt
                              : std::optional<size_t>(tokens - dims.begin());
  }
}

void Propagation::addUpAtBoundary(OpOperand &operand) {
  auto found = activations.find(operand.get());
  if (found == activations.end())
    return;
  TensorShardingAttr from = of(operand.get());
  SmallVector<Axes> dims;
  for (auto axes : from.getDims().getAsRange<ArrayAttr>())
    dims.emplace_back(axes.getValue());
  if (sharesTokens && found->second)
    for (Attribute axis : from.getUnreduced())
      if (dist::roleOf(axis) == AxisRole::Tensor)
        dims[*found->second].push_back(axis);
  reshard(operand, make(dims, {}));
}

void Propagation::addBehind(Value sum, Value init) {
  Operation *op = sum.getDefiningOp();
  builder.setInsertionPointAfter(op);
  auto add = builder.create<nn::AddOp>(op->getLoc(), sum.getType(), sum, init,
                                       ArrayAttr());
  sum.replaceAllUsesExcept(add.getOutput(), add);
  // Where what it is added to is a partial sum over some of the axes, the rest
  // is summed before.
  TensorShardingAttr to = withoutSums(of(sum));
  auto before = of(init).getUnreduced();
  if (llvm::all_of(before, [&](Attribute axis) {
        return llvm::is_contained(of(sum).getUnreduced(), axis);
      }))
    to = TensorShardingAttr::get(builder.getContext(), to.getDims(), before);
  reshard(add.getLhsMutable(), to);
  reshard(add.getRhsMutable(), to);
  set(add.getOutput(), to);
  add.setShardingsAttr(builder.getArrayAttr({to}));
  if (reasons)
    reasons->addResult(add, to, "it is added once, to the whole sum");
}

LogicalResult Propagation::visitCompute(Operation *op,
                                        nn::ShardingRuleOpInterface ruled,
                                        dist::MeshOp mesh) {
  dist::ShardingRule rule = ruled.getShardingRule();
  SmallVector<Axes> factors = axesOfFactors(op, rule);
  ArrayAttr tokens; // What splits the tokens of attention's operand.
  if (op->hasTrait<nn::MixesPositions>())
    tokens = cast<ArrayAttr>(of(op->getOperand(0)).getDims()[1]);
  if (failed(shard::verifySplits(op, rule, factors, mesh)))
    return failure();
  Axes unreduced = summedAxes(rule, factors);
  ArrayAttr passedOn = sumsOfAddends(op);
  if (passedOn)
    llvm::append_range(unreduced, passedOn);
  // A sum that is added to another partial sum over the same axes stays one;
  // else what it is added to is added once it is whole.
  SmallVector<std::pair<Value, Value>> later;
  llvm::DenseSet<OpOperand *> sums;
  for (size_t number = nn::initsOf(op).size(); number-- > 0;) {
    // Taken anew: a range does not survive that another one is cleared.
    auto [range, result] = nn::initsOf(op)[number];
    OpOperand &init = range[0];
    auto same = of(init.get()).getUnreduced().getValue();
    if (same == ArrayRef<Attribute>(unreduced)) {
      sums.insert(&init);
    } else if (!unreduced.empty()) {
      later.push_back({result, init.get()});
      range.clear();
    }
  }
  if (!later.empty()) {
    rule = ruled.getShardingRule();
    factors = axesOfFactors(op, rule);
    sums.clear();
  }
  for (auto [operand, dims] : llvm::zip(op->getOpOperands(), rule.operands)) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    SmallVector<Axes> needed;
    for (int64_t factor : dims)
      needed.push_back(factors[factor]);
    if (dims.empty())
      needed.resize(cast<RankedTensorType>(operand.get().getType()).getRank());
    reshard(operand,
            make(needed, passedOn || sums.contains(&operand)
                             ? ArrayRef<Attribute>(unreduced)
                             : ArrayRef<Attribute>()),
            rule.segmentsOfOperand(operand.getOperandNumber(),
                                   std::max<int64_t>(dims.size(), 1) - 1));
  }
  SmallVector<Attribute> results;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    SmallVector<Axes> split;
    for (int64_t factor : dims)
      split.push_back(factors[factor]);
    set(result, make(split, unreduced));
    results.push_back(of(result));
  }
  noteSums(op, rule, factors, passedOn != nullptr);
  op->setAttr("shardings", builder.getArrayAttr(results));
  if (reasons)
    reasons->addResults(op, builder.getArrayAttr(results), origins);
  if (tokens && !tokens.empty())
    returnTokens(op, rule, tokens);
  for (auto [sum, init] : later)
    addBehind(sum, init);
  return success();
}

/// Behind attention the axes that came to its heads from its tokens go back.
void Propagation::returnTokens(Operation *op, const dist::ShardingRule &rule,
                               ArrayAttr tokens) {
  for (OpResult result : op->getResults()) {
    if (rule.results[result.getResultNumber()].size() != 3 ||
        rule.factors[rule.results[result.getResultNumber()][1]].role !=
            FactorRole::Tokens)
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
    builder.setInsertionPointAfter(op);
    Value back = create(op, result, to,
                        rule.segmentsOfResult(result.getResultNumber(), 2),
                        "what follows attention");
    result.replaceAllUsesExcept(back, back.getDefiningOp());
  }
}

void Propagation::visitPack(nn::PackOp pack) {
  SmallVector<Axes> split(1);
  // The axes over which all of them are partial sums.
  Axes sums;
  for (Attribute axis : of(pack.getMembers().front()).getUnreduced())
    if (llvm::all_of(pack.getMembers(), [&](Value member) {
          return llvm::is_contained(of(member).getUnreduced(), axis);
        }))
      sums.push_back(axis);
  for (OpOperand &member : pack->getOpOperands()) {
    TensorShardingAttr sharding = of(member.get());
    reshard(member,
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

struct Propagate : heddle::impl::ShardPropagateBase<Propagate> {
  using Base::Base;

  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      FailureOr<dist::MeshOp> found = shard::meshOf(model);
      if (failed(found))
        return signalPassFailure();
      mesh = *found;
      auto strategy =
          dist::Strategy::fromDictionary(model.getStrategy().getValues());
      sequenceParallel =
          strategy.sequenceParallel && mesh.getSize(dist::AxisRole::Tensor) > 1;
      symbols.emplace(model);
      for (auto step : model.getOps<nn::StepOp>())
        if (failed(shardStep(step)))
          return signalPassFailure();
    }
    if (printReasons)
      reasons.print(llvm::errs());
  }

private:
  shard::Reasons *noted() { return printReasons ? &reasons : nullptr; }

  LogicalResult shardStep(nn::StepOp step) {
    Propagation propagation(&getContext(), noted());
    // Ids and labels: rows, and the tokens of each.
    for (BlockArgument argument : step.getArguments()) {
      int64_t rank = cast<RankedTensorType>(argument.getType()).getRank();
      SmallVector<Axes> dims(rank);
      auto split = [&](int64_t dim, AxisRole role) {
        if (step.getKind() != "generate")
          llvm::append_range(dims[dim], mesh.getAxesOf(role));
      };
      if (rank >= 2) {
        split(rank - 2, AxisRole::Data);
        split(rank - 1, AxisRole::Sequence);
        propagation.tokenAxes = {dims[rank - 2], dims[rank - 1]};
        // Between products, ranks along `tensor` share the tokens out.
        propagation.vocabularyAxes = mesh.getAxesOf(AxisRole::Tensor);
        propagation.sharesTokens =
            sequenceParallel && step.getKind() != "generate";
        if (propagation.sharesTokens)
          llvm::append_range(propagation.tokenAxes[1],
                             mesh.getAxesOf(AxisRole::Tensor));
      }
      propagation.set(argument, propagation.make(dims, {}));
      if (printReasons)
        reasons.addInput(argument, propagation.of(argument));
    }
    LogicalResult done = visit(step.getBody().front(), propagation);
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

  /// How a state, or a bucket, is stored.
  TensorShardingAttr storageOf(FlatSymbolRefAttr name,
                               Propagation &propagation) {
    Operation *state = symbols->lookup(name.getValue());
    if (auto storage = state->getAttrOfType<TensorShardingAttr>("storage"))
      return storage;
    auto type = cast<TypeAttr>(state->getAttr("type")).getValue();
    return propagation.whole(cast<RankedTensorType>(type).getRank());
  }

  /// What is written must be as the state is stored. Zeros are a partial sum
  /// of themselves.
  void visitSet(nn::SetOp set, Propagation &propagation) {
    auto storage = storageOf(set.getStateAttr(), propagation);
    auto fill = set.getValue().getDefiningOp<nn::FillOp>();
    if (fill && fill.getValue().isZero()) {
      propagation.set(fill.getOutput(), storage);
      fill.setShardingsAttr(ArrayAttr::get(&getContext(), {storage}));
      if (printReasons)
        reasons.addResult(fill, storage, "zeros for " + set.getState());
    }
    propagation.reshard(set.getValueMutable(), storage);
  }

  LogicalResult visit(Block &block, Propagation &propagation) {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (failed(visit(op, propagation)))
        return failure();
    return success();
  }

  LogicalResult visit(Operation &op, Propagation &propagation) {
    if (auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op))
      return propagation.visitCompute(&op, ruled, mesh);
    if (auto call = dyn_cast<nn::CallOp>(op))
      return visitCall(call, propagation);
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
      return visit(loop.getBody().front(), propagation);
    if (auto slice = dyn_cast<nn::MicroBatchOp>(op)) {
      auto from = propagation.of(slice.getInput());
      propagation.set(slice.getOutput(), shard::dropFirst(from));
    }
    if (auto get = dyn_cast<nn::GetOp>(op))
      propagation.set(get.getValue(),
                      storageOf(get.getStateAttr(), propagation));
    if (auto set = dyn_cast<nn::SetOp>(op))
      visitSet(set, propagation);
    if (auto pack = dyn_cast<nn::PackOp>(op))
      propagation.visitPack(pack);
    if (auto unpack = dyn_cast<nn::UnpackOp>(op))
      for (auto [member, sharding] : llvm::zip(
               unpack.getMembers(),
               unpack.getShardingsAttr().getAsRange<TensorShardingAttr>()))
        propagation.set(member, sharding);
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      reshard.setFromAttr(propagation.of(reshard.getInput()));
      propagation.set(reshard.getOutput(), reshard.getTo());
      if (printReasons)
        reasons.addReshard(reshard, reshard.getReason().starts_with("nn.")
                                        ? reshard.getReason()
                                        : "the unit " + reshard.getReason());
    }
    // Every rank keeps its part.
    if (auto kept = dyn_cast<nn::KeepOp>(op))
      propagation.reshard(
          kept.getValueMutable(),
          propagation.withoutSums(propagation.of(kept.getValue())));
    if (isa<nn::ReturnOp>(op) && isa<nn::FuncOp>(op.getParentOp()))
      for (OpOperand &operand : op.getOpOperands())
        propagation.addUpAtBoundary(operand);
    bool leaves = isa<nn::ReturnOp>(op) && isa<nn::StepOp>(op.getParentOp());
    if (leaves)
      for (OpOperand &operand : op.getOpOperands())
        propagation.reshard(
            operand,
            propagation.whole(
                cast<RankedTensorType>(operand.get().getType()).getRank()));
    return success();
  }

  /// What a rank can make any part of enters a layer as its only reader there
  /// wants it.
  void takeSplit(BlockArgument argument, Propagation &propagation) {
    if (!argument.hasOneUse())
      return;
    auto reshard = dyn_cast<dist::ReshardOp>(*argument.getUsers().begin());
    if (!reshard || !reshard.getTo().getUnreduced().empty())
      return;
    propagation.set(argument, reshard.getTo());
    reshard.getOutput().replaceAllUsesWith(argument);
    reshard.erase();
    --propagation.numReshards;
  }

  /// The boundary of a layer is one for all its instances: the first call
  /// decides, the others are resharded to it.
  LogicalResult visitCall(nn::CallOp call, Propagation &propagation) {
    auto callee = symbols->lookup<nn::FuncOp>(call.getCallee());
    for (OpOperand &operand : call->getOpOperands())
      propagation.addUpAtBoundary(operand);
    if (!callee.getArgShardings()) {
      Propagation inner(&getContext(), noted());
      inner.sharesTokens = propagation.sharesTokens;
      for (auto [argument, operand] :
           llvm::zip(callee.getArguments(), call.getOperands()))
        if (isa<RankedTensorType>(operand.getType())) {
          inner.set(argument, propagation.of(operand));
          if (printReasons)
            reasons.addArgument(argument, inner.of(argument), operand);
        }
      if (failed(visit(callee.getBody().front(), inner)))
        return failure();
      for (auto [argument, operand] :
           llvm::zip(callee.getArguments(), call.getOperands()))
        if (Propagation::isMadeAnywhere(operand))
          takeSplit(argument, inner);
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
  shard::Reasons reasons;
  std::optional<SymbolTable> symbols; ///< Of the model.
  bool sequenceParallel = false;
};

} // namespace
