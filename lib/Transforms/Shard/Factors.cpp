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

/// Splits a factor (dimensions that are split alike, like a letter of an
/// einsum) over a mesh axis. Does nothing if the axis already splits another
/// factor of the operation, because an axis can split only one factor.
void FactorFinder::give(int64_t factor, Attribute axis, Value operand,
                        StringRef why) {
  Origin origin{operand, why, rule->factors[factor].name,
                rule->factors[factor].kind == FactorKind::Reduction};
  if (factors.origins.insert({axis, std::move(origin)}).second)
    factors.axes[factor].push_back(axis);
}

/// Splits each factor (dimensions that are split alike) of the operation over
/// the mesh axes that already split its dimensions in the operands. The first
/// operand with a split decides. A later operand may only append axes to the
/// decided list. If `rows` is true, only the factors of rows and tokens are
/// handled, otherwise only all other factors.
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

/// Splits factors (dimensions that are split alike) over further mesh axes,
/// because of what the operation computes, and not because an operand is split
/// over them.
void FactorFinder::giveRoles() {
  // Attention needs whole sequences: the mesh axes that split the tokens of its
  // operands split its heads instead (Ulysses; Jacobs et al., arXiv
  // 2309.14509).
  if (op->hasTrait<nn::MixesPositions>())
    for (Attribute axis :
         cast<ArrayAttr>(plan.of(op->getOperand(0)).getDims()[1]))
      give(rule->indexOf(FactorRole::Heads), axis, Value(),
           "attention sees whole sequences");
  // With sequence parallelism a partial sum is not all-reduced but
  // reduce-scattered, so that ranks split its tokens.
  int64_t tokens = rule->indexOf(FactorRole::Tokens);
  if (around.sharesTokens && tokens >= 0 && !factors.addsUp &&
      rule->factors[tokens].kind != FactorKind::Whole)
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule->operands))
      if (activations.contains(operand) && llvm::is_contained(dims, tokens))
        for (Attribute axis : plan.of(operand).getUnreduced())
          if (dist::roleOf(axis) == AxisRole::Tensor)
            give(tokens, axis, Value(), "ranks share the tokens out");
  // nn.positions has no operands that could be split. Its result is split like
  // the tokens of the step.
  if (isa<nn::PositionsOp>(op))
    for (auto [dim, factor] : llvm::enumerate(rule->results[0]))
      for (Attribute axis : around.tokenAxes[dim])
        give(factor, axis, Value(), "it splits the step's tokens");
}

void FactorFinder::split() {
  factors.axes.assign(rule->factors.size(), {});
  factors.origins.clear();
  // A rank holds some rows of the embedding table, and computes the gradient of
  // these rows.
  if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op);
      grad && splitsTable(*rule, grad.getIds(), around.vocabularyRanks))
    for (Attribute axis : around.vocabularyAxes)
      give(rule->indexOf(FactorRole::Vocabulary), axis, Value(),
           "a rank makes the gradient of its rows");
  // The same mesh axis may split the rows of an activation and the input
  // features of a weight, but in the product it can split only one of the two.
  // Features come first. The activation is then gathered instead of the weight,
  // which moves less data.
  giveOperands(/*rows=*/false);
  giveOperands(/*rows=*/true);
  giveRoles();
  factors.unreduced.clear();
  for (auto [factor, axes] : llvm::zip(rule->factors, factors.axes))
    if (factor.kind == FactorKind::Reduction)
      llvm::append_range(factors.unreduced, axes);
}

/// Decides when to add each init (an operand that a result is added to). An
/// init that is a partial sum over the same mesh axes as the result is added by
/// the operation itself. Any other init must be added after the result is
/// reduced, as otherwise every rank would add it.
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

/// If exactly one operand is a partial sum, and the operation is linear in it,
/// the result may be a partial sum, too. The reduction then comes after the
/// operation instead of before it.
void FactorFinder::keepSums() {
  OpOperand *sum = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    // Operands that are random numbers or indices have no sharding.
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
  // If both operands of an addition are partial sums over the same mesh axes,
  // they need not be reduced before the addition.
  if (auto add = dyn_cast<nn::AddOp>(op)) {
    TensorShardingAttr left = plan.of(add.getLhs());
    factors.addsUp =
        left == plan.of(add.getRhs()) && !left.getUnreduced().empty();
  }
  // `chooseInits` adds to `later` each init (an operand that the result is
  // added to) that must be added after the reduction of the result. Such an
  // init must not decide how factors are split. So split the factors again
  // without it, until `later` does not grow any more.
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
