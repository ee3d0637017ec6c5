//===- Factors.cpp - Which axes split a computation -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Factors.h"
#include "Splits.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::AxisRole;
using dist::FactorKind;
using dist::FactorRole;
using dist::TensorShardingAttr;

/// An axis serves one factor, the first one that it is given to.
void FactorFinder::give(int64_t factor, Attribute axis, Value operand,
                        StringRef why) {
  Origin origin{operand, why, rule->factors[factor].name,
                rule->factors[factor].kind == FactorKind::Reduction};
  if (factors.origins.insert({axis, std::move(origin)}).second)
    factors.axes[factor].push_back(axis);
}

/// Each factor takes the axes of the first operand that splits it, and those by
/// which a later one splits it further.
void FactorFinder::giveOperands(bool rows) {
  for (auto [operand, dims] : llvm::zip(op->getOpOperands(), rule->operands)) {
    if (dims.empty() || factors.later.contains(&operand))
      continue;
    for (auto [list, factor] :
         llvm::zip(plan.of(operand.get()).getDims(), dims)) {
      const dist::Factor &which = rule->factors[factor];
      auto axes = cast<ArrayAttr>(list).getValue();
      const Axes &taken = factors.axes[factor];
      if (isRow(which) != rows || which.kind == FactorKind::Whole ||
          axes.take_front(taken.size()) != ArrayRef<Attribute>(taken))
        continue;
      for (Attribute axis : axes.drop_front(taken.size()))
        give(factor, axis, operand.get());
    }
  }
}

/// What follows from what an operation does, not from its operands.
void FactorFinder::giveRoles() {
  // Attention sees whole sequences: the axes that split its tokens split its
  // heads in their place (Jacobs et al., arXiv 2309.14509).
  if (op->hasTrait<nn::MixesPositions>())
    for (Attribute axis :
         cast<ArrayAttr>(plan.of(op->getOperand(0)).getDims()[1]))
      give(rule->indexOf(FactorRole::Heads), axis, Value(),
           "attention sees whole sequences");
  // Ranks that share the tokens out scatter a product's sum over them.
  int64_t tokens = rule->indexOf(FactorRole::Tokens);
  if (around.sharesTokens && tokens >= 0 && !factors.addsUp &&
      rule->factors[tokens].kind != FactorKind::Whole)
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule->operands))
      if (activations.contains(operand) && llvm::is_contained(dims, tokens))
        for (Attribute axis : plan.of(operand).getUnreduced())
          if (dist::roleOf(axis) == AxisRole::Tensor)
            give(tokens, axis, Value(), "ranks share the tokens out");
  // Positions have no operands: they are the tokens' of the step.
  if (isa<nn::PositionsOp>(op))
    for (auto [dim, factor] : llvm::enumerate(rule->results[0]))
      for (Attribute axis : around.tokenAxes[dim])
        give(factor, axis, Value(), "it splits the step's tokens");
}

void FactorFinder::split() {
  factors.axes.assign(rule->factors.size(), {});
  factors.origins.clear();
  // A rank makes the gradient of its own rows of the vocabulary.
  if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op);
      grad && splitsTable(*rule, grad.getIds(), around.vocabularyRanks))
    for (Attribute axis : around.vocabularyAxes)
      give(rule->indexOf(FactorRole::Vocabulary), axis, Value(),
           "a rank makes the gradient of its rows");
  // Features come before rows: parameters are not gathered where their
  // activations can be.
  giveOperands(/*rows=*/false);
  giveOperands(/*rows=*/true);
  giveRoles();
  factors.unreduced.clear();
  for (auto [factor, axes] : llvm::zip(rule->factors, factors.axes))
    if (factor.kind == FactorKind::Reduction)
      llvm::append_range(factors.unreduced, axes);
}

/// A sum that is added to another partial sum over the same axes stays one;
/// else what it is added to is added once it is whole: every rank would add it.
void FactorFinder::chooseInits() {
  for (nn::Init &init : nn::initsOf(op)) {
    OpOperand &operand = init.operand[0];
    if (factors.later.contains(&operand))
      continue;
    if (plan.of(operand.get()).getUnreduced().getValue() ==
        ArrayRef<Attribute>(factors.unreduced))
      factors.sums.insert(&operand);
    else if (!factors.unreduced.empty())
      factors.later.insert(&operand);
  }
}

/// What is linear in a partial sum is one, too.
void FactorFinder::keepSums() {
  OpOperand *sum = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    // Random numbers and indices have no sharding.
    if (!isa<RankedTensorType>(operand.get().getType()) ||
        plan.of(operand.get()).getUnreduced().empty())
      continue;
    if (sum)
      return;
    sum = &operand;
  }
  if (!sum)
    return;
  auto over = plan.of(sum->get()).getUnreduced().getValue();
  for (const Axes &axes : factors.axes)
    if (llvm::any_of(over, [&](Attribute axis) {
          return llvm::is_contained(axes, axis);
        }))
      return;
  auto properties = dyn_cast<nn::PropertiesOpInterface>(op);
  if (!properties || !properties.isLinearIn(*sum))
    return;
  factors.sums.insert(sum);
  llvm::append_range(factors.unreduced, over);
}

Factors FactorFinder::find(Operation *of, const dist::ShardingRule &ruleOf) {
  op = of;
  rule = &ruleOf;
  factors = Factors();
  // The sum of partial sums over the same axes is one, too.
  if (auto add = dyn_cast<nn::AddOp>(op)) {
    TensorShardingAttr left = plan.of(add.getLhs());
    factors.addsUp =
        left == plan.of(add.getRhs()) && !left.getUnreduced().empty();
  }
  // What is added later splits nothing here.
  size_t before;
  do {
    before = factors.later.size();
    factors.sums.clear();
    split();
    chooseInits();
  } while (factors.later.size() > before);
  if (factors.addsUp)
    llvm::append_range(factors.unreduced,
                       plan.of(op->getOperand(0)).getUnreduced());
  keepSums();
  return std::move(factors);
}
