//===- ShardingRules.cpp - Sharding rules of the nn operations ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The sharding rules of the operations (ShardingRuleOpInterface), written like
// einsum: dimensions with the same letter are one factor. Letters: b batch, t
// sequence, h heads, c/i/o features, v vocabulary, k any further leading
// dimension. For example, a tensor [batch, sequence, features] is "btc", and
// with one more leading dimension it is "btkc".
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::buildRule;
using dist::FactorRole;
using dist::ShardingRule;

static int64_t rank(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

std::string heddle::nn::leadingLetters(int64_t count) {
  return std::string("btkmnpqr").substr(0, count);
}

static std::string rowsOf(Value value) {
  return leadingLetters(rank(value) - 1);
}
static std::string rows(Value value, char last) { return rowsOf(value) + last; }

/// The sharding rule of an element-wise operation: all operands and results
/// have the same shape and must have the same sharding.
static ShardingRule elementwise(Operation *op) {
  std::string letters = leadingLetters(rank(op->getResult(0)));
  SmallVector<std::string> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isa<RankedTensorType>(operand.getType()) &&
                               operand.getType() == op->getResult(0).getType()
                           ? letters
                           : "");
  return buildRule(op, operands, {letters});
}

ShardingRule EmbeddingOp::getShardingRule() {
  std::string ids = leadingLetters(rank(getIds()));
  return buildRule(*this, {"vc", ids}, {ids + "c"});
}
ShardingRule EmbeddingGradOp::getShardingRule() {
  std::string ids = leadingLetters(rank(getIds()));
  return buildRule(*this, {ids + "c", ids, "vc"}, {"vc"});
}
ShardingRule PositionsOp::getShardingRule() {
  return buildRule(*this, {}, {leadingLetters(rank(getOutput()))});
}
// nn.reorder permutes the features of each row. Ranks cannot split the
// features, because any input feature may become any output feature.
ShardingRule ReorderOp::getShardingRule() {
  std::string lead = rowsOf(getInput());
  return buildRule(*this, {lead + "i", "o"}, {lead + "o"}, "i");
}
ShardingRule AddOp::getShardingRule() { return elementwise(*this); }
ShardingRule MulOp::getShardingRule() { return elementwise(*this); }
ShardingRule CastOp::getShardingRule() {
  std::string letters = leadingLetters(rank(getInput()));
  return buildRule(*this, {letters}, {letters});
}
ShardingRule DropoutOp::getShardingRule() {
  std::string letters = leadingLetters(rank(getInput()));
  return buildRule(*this, {letters, "z"}, {letters}, "z");
}
// Ranks can split all dimensions but the one that is sliced.
ShardingRule SliceOp::getShardingRule() {
  std::string in = leadingLetters(rank(getInput())), out = in;
  out[getDim()] = 'y';
  return buildRule(*this, {in}, {out}, std::string(1, in[getDim()]) + "y");
}
ShardingRule ConcatOp::getShardingRule() {
  std::string out = leadingLetters(rank(getOutput())), whole(1, out[getDim()]);
  SmallVector<std::string> operands;
  for (size_t number = 0; number < getInputs().size(); ++number) {
    operands.push_back(out);
    operands.back()[getDim()] = static_cast<char>('A' + number);
    whole += operands.back()[getDim()];
  }
  return buildRule(*this, operands, {out}, whole);
}
ShardingRule LinearOp::getShardingRule() {
  std::string out = rows(getOutput(), 'o');
  return buildRule(*this,
                   {rows(getInput(), 'i'), getTransposed() ? "oi" : "io",
                    getInit() ? out : "o"},
                   {out});
}
ShardingRule AddBiasOp::getShardingRule() {
  std::string in = rows(getInput(), 'o');
  return buildRule(*this, {in, "o"}, {in});
}
ShardingRule LinearGradWeightOp::getShardingRule() {
  std::string weight = getTransposed() ? "oi" : "io";
  return buildRule(*this, {rows(getInput(), 'i'), rows(getGrad(), 'o'), weight},
                   {weight});
}
ShardingRule SumRowsOp::getShardingRule() {
  return buildRule(*this, {rows(getInput(), 'c'), "c"}, {"c"});
}
ShardingRule LayerNormOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, "c", "c"}, {in, stats, stats}, "c");
}
ShardingRule LayerNormGradInputOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, in, "c", stats, stats}, {in}, "c");
}
ShardingRule LayerNormGradWeightOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, in, stats, stats, "c", "c"}, {"c", "c"});
}
ShardingRule RmsNormOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, "c"}, {in, stats}, "c");
}
ShardingRule RmsNormGradInputOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, in, "c", stats}, {in}, "c");
}
ShardingRule RmsNormGradWeightOp::getShardingRule() {
  std::string in = rows(getInput(), 'c'), stats = rowsOf(getInput());
  return buildRule(*this, {in, in, stats, "c"}, {"c"});
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// The letter h is the factor of heads. Ranks split a dimension of heads * D
// features only between heads. If one tensor holds q, k and v side by side,
// each of the three segments is split separately.

/// Lets ranks split the factor h only between heads of keys and values. In
/// grouped-query attention, several heads of queries share one of these.
static void countHeads(ShardingRule &rule, int64_t heads, int64_t kvHeads) {
  rule.setUnits(FactorRole::Heads, kvHeads,
                heads == kvHeads ? "heads" : "key/value heads");
}

ShardingRule RotaryOp::getShardingRule() {
  ShardingRule rule = buildRule(*this, {"bth", "bt"}, {"bth"});
  countHeads(rule, getHeads(), getHeads());
  return rule;
}
// Only the dimension of heads can be split, so that a rank has whole heads.
ShardingRule ReshapeOp::getShardingRule() {
  Value split = splits() ? getOutput() : getInput();
  std::string joined = leadingLetters(rank(split) - 2) + "h";
  std::string in = joined, out = joined;
  (splits() ? out : in) += "c";
  ShardingRule rule = buildRule(*this, {in}, {out}, "c");
  int64_t heads =
      cast<RankedTensorType>(split.getType()).getShape().drop_back().back();
  countHeads(rule, heads, heads);
  return rule;
}
/// Appends to `operands` the dimensions of the operands that follow q, k and v:
/// the lengths and the layout, if present, and the state of the random numbers.
/// An operand's dimensions are a string with one letter for each dimension (see
/// buildRule).
static void addContext(AttentionOpInterface op,
                       SmallVectorImpl<std::string> &operands) {
  if (op.getLengths())
    operands.push_back("b");
  if (op.getLayout())
    operands.push_back("xyw");
  operands.push_back("z");
}

/// The letters of the factors that ranks must not split: x, y and w, the
/// layout; z, the state of the random numbers; and t, the sequence. With ring
/// attention ranks may split the sequence, so the result has no t.
static StringRef wholeOf(AttentionOpInterface op) {
  auto placement = op.getPlacementAttr();
  return placement && placement.getRing() ? "xywz" : "txywz";
}

ShardingRule AttentionOp::getShardingRule() {
  SmallVector<std::string> operands(getQkv().size(), "bth");
  addContext(*this, operands);
  ShardingRule rule =
      buildRule(*this, operands, {"bth", "bht"}, wholeOf(*this));
  countHeads(rule, getHeads().getCount(), getHeads().getKv());
  if (isPacked())
    rule.operandSegments.push_back({0, 2, getWidths()});
  return rule;
}
ShardingRule AttentionGradOp::getShardingRule() {
  SmallVector<std::string> results(getQkv().size(), "bth");
  SmallVector<std::string> operands(1 + getQkv().size(), "bth");
  operands.append({"bth", "bht"});
  addContext(*this, operands);
  ShardingRule rule = buildRule(*this, operands, results, wholeOf(*this));
  countHeads(rule, getHeads().getCount(), getHeads().getKv());
  if (isPacked()) {
    rule.operandSegments.push_back({1, 2, getWidths()});
    rule.resultSegments.push_back({0, 2, getWidths()});
  }
  return rule;
}

ShardingRule AttentionJoinOp::getShardingRule() {
  ShardingRule rule = buildRule(*this, {"bth", "bht", "bth", "bht"}, {"bth"});
  rule.setUnits(FactorRole::Heads,
                cast<RankedTensorType>(getLeftLse().getType()).getDimSize(1),
                "heads");
  return rule;
}
ShardingRule LogAddExpOp::getShardingRule() { return elementwise(*this); }

//===----------------------------------------------------------------------===//
// Loss and optimizer
//===----------------------------------------------------------------------===//

// If ranks split the vocabulary, `localize` replaces the operation by
// nn.cross_entropy_part and nn.cross_entropy_join.
ShardingRule CrossEntropyOp::getShardingRule() {
  std::string row = rowsOf(getLogits());
  ShardingRule rule = buildRule(*this, {row + "v", row}, {row, row});
  rule.factors[rule.indexOf(FactorRole::Vocabulary)].kind =
      dist::FactorKind::Combined;
  return rule;
}
ShardingRule CrossEntropyPartOp::getShardingRule() {
  std::string row = rowsOf(getLogits());
  return buildRule(*this, {row + "v", row}, {row, row}, "v");
}
// The first operand stacks the log-sum-exps of all vocabulary shards along its
// first dimension. Ranks cannot split the first dimension of any operand,
// because a row needs the log-sum-exps of all shards.
ShardingRule CrossEntropyJoinOp::getShardingRule() {
  std::string row = leadingLetters(rank(getLabels())), rest = row.substr(1);
  return buildRule(*this, {"z" + rest, row, row}, {row, row}, "bz");
}
ShardingRule CrossEntropyGradOp::getShardingRule() {
  std::string row = rowsOf(getLogits());
  return buildRule(*this, {row + "v", row, row, row}, {row + "v"});
}
ShardingRule SumOp::getShardingRule() {
  std::string all = leadingLetters(rank(getInput()));
  SmallVector<std::string> operands = {all};
  if (getWeights())
    operands.push_back(all);
  if (getInit())
    operands.push_back("");
  return buildRule(*this, operands, {""});
}
ShardingRule CountLabelsOp::getShardingRule() {
  std::string all = leadingLetters(rank(getLabels()));
  SmallVector<std::string> operands(getNumOperands(), all);
  return buildRule(*this, operands, {""});
}
ShardingRule LossScaleOp::getShardingRule() {
  return buildRule(*this, {""}, {""});
}
ShardingRule TokenWeightsOp::getShardingRule() {
  std::string all = leadingLetters(rank(getLabels()));
  SmallVector<std::string> operands = {all, ""};
  if (getWeights())
    operands.push_back(all);
  return buildRule(*this, operands, {all});
}
ShardingRule TakeRowOp::getShardingRule() {
  return buildRule(*this, {"btc", ""}, {"boc"}, "to");
}
ShardingRule FillOp::getShardingRule() {
  return buildRule(*this, {}, {leadingLetters(rank(getOutput()))});
}
// A rank computes sums of squares for blocks of its shard. These blocks differ
// from those of the whole tensor, but the sum over all blocks and ranks is the
// same.
ShardingRule SquareSumsOp::getShardingRule() {
  std::string letters =
      StringRef("nmlkjihg").take_front(rank(getInput())).str();
  return buildRule(*this, {letters}, {"b"}, "b");
}
ShardingRule GlobalNormOp::getShardingRule() {
  // `buildRule` names factors by letters, and there may be more dimensions than
  // letters. So create the factors directly, one for each dimension of each
  // input.
  ShardingRule rule;
  for (Value input : getInputs()) {
    auto &dims = rule.operands.emplace_back();
    for (int64_t size : cast<RankedTensorType>(input.getType()).getShape()) {
      dims.push_back(rule.factors.size());
      rule.factors.push_back({"n" + std::to_string(rule.factors.size()), size,
                              dist::FactorKind::Whole});
    }
  }
  rule.results.emplace_back();
  return rule;
}
ShardingRule AdvancePowerOp::getShardingRule() {
  return buildRule(*this, {"", ""}, {"", ""});
}
ShardingRule CountUpdateOp::getShardingRule() {
  return buildRule(*this, {"", ""}, {""});
}
ShardingRule TakeRateOp::getShardingRule() {
  return buildRule(*this, {"k", ""}, {""}, "k");
}
ShardingRule AdvanceLossScaleOp::getShardingRule() {
  SmallVector<std::string> operands(getNumOperands()), results(getNumResults());
  return buildRule(*this, operands, results);
}
