//===- ShardingRules.cpp - How the nn operations may be split -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Letters: b batch, t sequence, c/i/o features, v vocabulary, k any further
// leading dimension. Leading dimensions of a tensor [..., C] are written
// b t k ... in order.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::buildRule;
using dist::ShardingRule;

static int64_t rank(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

/// The letters of `count` leading dimensions.
static std::string leading(int64_t count) {
  return std::string("btkmnpqr").substr(0, count);
}

static std::string rowsOf(Value value) { return leading(rank(value) - 1); }
static std::string rows(Value value, char last) { return rowsOf(value) + last; }

/// All operands and results have one shape, split alike.
static ShardingRule elementwise(Operation *op) {
  std::string letters = leading(rank(op->getResult(0)));
  SmallVector<std::string> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isa<RankedTensorType>(operand.getType()) &&
                               operand.getType() == op->getResult(0).getType()
                           ? letters
                           : "");
  return buildRule(op, operands, {letters});
}

ShardingRule EmbeddingOp::getShardingRule() {
  std::string ids = leading(rank(getIds()));
  return buildRule(*this, {"vc", ids}, {ids + "c"});
}
ShardingRule EmbeddingGradOp::getShardingRule() {
  std::string ids = leading(rank(getIds()));
  return buildRule(*this, {ids + "c", ids, "vc"}, {"vc"});
}
ShardingRule PositionsOp::getShardingRule() {
  return buildRule(*this, {}, {leading(rank(getOutput()))});
}
ShardingRule AddOp::getShardingRule() { return elementwise(*this); }
ShardingRule MulOp::getShardingRule() { return elementwise(*this); }
ShardingRule GeluOp::getShardingRule() { return elementwise(*this); }
ShardingRule GeluGradOp::getShardingRule() { return elementwise(*this); }
ShardingRule SiluOp::getShardingRule() { return elementwise(*this); }
ShardingRule SiluGradOp::getShardingRule() { return elementwise(*this); }
ShardingRule ReluOp::getShardingRule() { return elementwise(*this); }
ShardingRule ReluGradOp::getShardingRule() { return elementwise(*this); }
ShardingRule CastOp::getShardingRule() {
  std::string letters = leading(rank(getInput()));
  return buildRule(*this, {letters}, {letters});
}
ShardingRule DropoutOp::getShardingRule() {
  std::string letters = leading(rank(getInput()));
  return buildRule(*this, {letters, "z"}, {letters}, "z");
}
ShardingRule LinearOp::getShardingRule() {
  return buildRule(*this,
                   {rows(getInput(), 'i'), getTransposed() ? "oi" : "io", "o"},
                   {rows(getOutput(), 'o')});
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
// The features of a rotary embedding and of a packed qkv hold whole heads; a
// split of them by heads needs the heads as a dimension, so they stay whole.
ShardingRule RotaryOp::getShardingRule() {
  return buildRule(*this, {"btc", "bt"}, {"btc"}, "c");
}

/// Letters of q, k, v or the packed operand: each a width of its own.
static void qkvLetters(SmallVectorImpl<std::string> &letters, size_t count) {
  if (count == 1)
    letters.push_back("btw");
  else
    letters.append({"btc", "btw", "btw"});
}

ShardingRule AttentionOp::getShardingRule() {
  SmallVector<std::string> operands;
  qkvLetters(operands, getQkv().size());
  operands.push_back("z");
  return buildRule(*this, operands, {"btc", "bht"}, "thcwz");
}
ShardingRule AttentionGradOp::getShardingRule() {
  SmallVector<std::string> operands = {"btc"}, results;
  qkvLetters(operands, getQkv().size());
  operands.append({"btc", "bht", "z"});
  qkvLetters(results, getQkv().size());
  return buildRule(*this, operands, results, "thcwz");
}
ShardingRule CrossEntropyOp::getShardingRule() {
  std::string row = rowsOf(getLogits());
  return buildRule(*this, {row + "v", row}, {row, row}, "v");
}
ShardingRule CrossEntropyGradOp::getShardingRule() {
  std::string row = rowsOf(getLogits());
  return buildRule(*this, {row + "v", row, row}, {row + "v"});
}
ShardingRule SumOp::getShardingRule() {
  return buildRule(*this, {leading(rank(getInput())), ""}, {""});
}
ShardingRule TakeRowOp::getShardingRule() {
  return buildRule(*this, {"btc", ""}, {"boc"}, "to");
}
ShardingRule FillOp::getShardingRule() {
  return buildRule(*this, {}, {leading(rank(getOutput()))});
}
ShardingRule SquareSumsOp::getShardingRule() {
  // Blocks cross the borders of shards: the operand stays whole.
  return buildRule(*this, {"n"}, {"b"}, "nb");
}
ShardingRule GlobalNormOp::getShardingRule() {
  static constexpr StringLiteral letters = "abcdefghijklmnopqrstuvwxyz";
  SmallVector<std::string> operands;
  for (size_t index = 0; index < getInputs().size(); ++index)
    operands.push_back(std::string(1, letters[index % letters.size()]));
  return buildRule(*this, operands, {""}, letters);
}
ShardingRule ClipCoefficientOp::getShardingRule() {
  return buildRule(*this, {""}, {""});
}
ShardingRule AdamWOp::getShardingRule() {
  return buildRule(*this, {"n", "n", "n", "n", "", "", "", ""},
                   {"n", "n", "n", "n"});
}
