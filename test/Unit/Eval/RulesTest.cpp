//===- RulesTest.cpp - Sharding rules with heads and columns ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "mlir/IR/Diagnostics.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using dist::FactorKind;
using dist::ShardingRule;

namespace {

const char *const packedAttention =
    "nn.attention %x {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = "
    "#nn.mask<full>} : (tensor<2x3x24xf32>) -> (tensor<2x3x12xf32>, "
    "tensor<2x4x3xf32>)";

ShardingRule ruleOf(Operation *op) {
  return cast<nn::ShardingRuleOpInterface>(op).getShardingRule();
}

FactorKind kindOf(const ShardingRule &rule, StringRef name) {
  return rule.factors[rule.indexOf(name)].kind;
}

/// Makes the operation one of `parts` along the factor `name` of `rule`.
void localize(Operation *op, const ShardingRule &rule, StringRef name,
              int64_t parts) {
  dist::Split split{rule, {}, {}};
  split.axes.resize(rule.factors.size(), ArrayAttr::get(op->getContext(), {}));
  split.parts.resize(rule.factors.size(), 1);
  split.parts[rule.indexOf(name)] = parts;
  cast<nn::ShardingRuleOpInterface>(op).localize(split);
}

/// The error that `verifyRule` reports.
std::string verifyError(Operation *op, const ShardingRule &rule) {
  std::string message;
  ScopedDiagnosticHandler handler(
      &testContext(),
      [&](mlir::Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(failed(dist::verifyRule(op, rule)));
  return message;
}

TEST(Rules, PackedAttentionIsSplitByHeadsInSegments) {
  CaseModule module =
      parseCase({"", "%x: tensor<2x3x24xf32>", packedAttention});
  ASSERT_TRUE(module.operation);
  ShardingRule rule = ruleOf(module.operation);
  EXPECT_EQ(rule.str(), "([b,t,h])->([b,t,h],[b,h,t]) {b=2, t=3 whole, h=2 "
                        "key/value heads}");
  EXPECT_TRUE(succeeded(dist::verifyRule(module.operation, rule)));
  EXPECT_EQ(rule.segmentsOfOperand(0, 2), ArrayRef<int64_t>({12, 6, 6}));
  EXPECT_TRUE(rule.segmentsOfOperand(0, 1).empty());
  EXPECT_TRUE(rule.segmentsOfResult(0, 2).empty());

  const dist::Factor &heads = rule.factors[rule.indexOf("h")];
  EXPECT_TRUE(dist::canSplit(heads, 2));
  EXPECT_FALSE(dist::canSplit(heads, 4));
  EXPECT_EQ(dist::largestSplit(heads, 6), 2);

  rule.operandSegments[0].sizes = {12, 6, 5};
  EXPECT_EQ(verifyError(module.operation, rule),
            "'nn.attention' op sharding rule: segments of dimension 2 of "
            "operand 0 have 23 elements, it has 24");
  rule.operandSegments[0].sizes = {12, 7, 5};
  EXPECT_EQ(verifyError(module.operation, rule),
            "'nn.attention' op sharding rule: 7 elements of dimension 2 of "
            "operand 0 are not 2 key/value heads");
}

TEST(Rules, ElementsSplitUnevenlyAndWholeFactorsNotAtAll) {
  dist::Factor columns = {"v", 50257};
  EXPECT_TRUE(dist::canSplit(columns, 3));
  EXPECT_EQ(dist::largestSplit(columns, 1 << 20), 50257);
  columns.kind = FactorKind::Whole;
  EXPECT_EQ(dist::largestSplit(columns, 8), 1);
}

TEST(Rules, LocalAttentionHasFewerHeads) {
  CaseModule module =
      parseCase({"", "%x: tensor<2x3x24xf32>", packedAttention});
  auto attention = cast<nn::AttentionOp>(module.operation);
  ShardingRule rule = attention.getShardingRule();
  localize(attention, rule, "h", 2);
  EXPECT_EQ(attention.getHeads().getCount(), 2);
  EXPECT_EQ(attention.getHeads().getKv(), 1);
}

TEST(Rules, LocalSquareSumsHaveTheBlocksOfTheirElements) {
  CaseModule module =
      parseCase({"", "%x: tensor<200000xf32>",
                 "nn.square_sums %x : (tensor<200000xf32>) -> tensor<4xf32>"});
  auto sums = cast<nn::SquareSumsOp>(module.operation);
  ShardingRule rule = sums.getShardingRule();
  EXPECT_EQ(kindOf(rule, "n"), FactorKind::Reduction);
  EXPECT_EQ(kindOf(rule, "b"), FactorKind::Whole);
  sums.getInput().setType(
      cast<RankedTensorType>(sums.getInput().getType()).clone({100000}));
  localize(sums, rule, "n", 2);
  EXPECT_EQ(sums.getOutput().getType().getShape(), ArrayRef<int64_t>({2}));
}

TEST(Rules, VocabularyIsSummedOrCombined) {
  CaseModule table =
      parseCase({"", "%w: tensor<5x4xf32>, %ids: tensor<2x3xi32>",
                 "nn.embedding %w[%ids] : (tensor<5x4xf32>, tensor<2x3xi32>) "
                 "-> tensor<2x3x4xf32>"});
  EXPECT_EQ(kindOf(ruleOf(table.operation), "v"), FactorKind::Reduction);
  CaseModule loss = parseCase(
      {"", "%x: tensor<2x3x5xf32>, %ids: tensor<2x3xi32>",
       "nn.cross_entropy %x, %ids : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> "
       "(tensor<2x3xf32>, tensor<2x3xf32>)"});
  EXPECT_EQ(kindOf(ruleOf(loss.operation), "v"), FactorKind::Combined);
  EXPECT_EQ(kindOf(ruleOf(loss.operation), "t"), FactorKind::Parallel);
}

TEST(Rules, FactorsHaveRoles) {
  CaseModule product =
      parseCase({"", "%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>",
                 "nn.linear %x, %w {transposed} : (tensor<2x3x4xf32>, "
                 "tensor<5x4xf32>) -> tensor<2x3x5xf32>"});
  ShardingRule rule = ruleOf(product.operation);
  EXPECT_EQ(rule.indexOf(dist::FactorRole::Rows), rule.indexOf("b"));
  EXPECT_EQ(rule.indexOf(dist::FactorRole::Tokens), rule.indexOf("t"));
  EXPECT_EQ(rule.indexOf(dist::FactorRole::Vocabulary), -1);
  for (StringRef name : {"i", "o"})
    EXPECT_EQ(rule.factors[rule.indexOf(name)].role,
              dist::FactorRole::Features);
  rule.setUnits(dist::FactorRole::Rows, 1, "pairs");
  EXPECT_EQ(rule.factors[rule.indexOf("b")].units, "pairs");
}

/// Gradients of parameters are sums over all rows, whichever are split.
TEST(Rules, GradientsOfParametersAreSumsOverRows) {
  for (const OpCase &opCase : opCases()) {
    if (opCase.operation != "nn.layer_norm_grad_weight" &&
        opCase.operation != "nn.rms_norm_grad_weight" &&
        opCase.operation != "nn.linear_grad_weight" &&
        opCase.operation != "nn.embedding_grad" &&
        opCase.operation != "nn.sum_rows" && opCase.operation != "nn.sum")
      continue;
    SCOPED_TRACE(opCase.body);
    CaseModule module = parseCase(opCase);
    ASSERT_TRUE(module.operation);
    ShardingRule rule = ruleOf(module.operation);
    EXPECT_EQ(kindOf(rule, "b"), FactorKind::Reduction);
    EXPECT_EQ(kindOf(rule, "t"), FactorKind::Reduction);
  }
}

/// The operation's operands whose features are those of the first result.
static std::vector<unsigned> keptFeatures(const std::string &arguments,
                                          const std::string &body) {
  CaseModule module = parseCase({"", arguments, body});
  std::vector<unsigned> kept;
  for (OpOperand &operand : module.operation->getOpOperands())
    if (ruleOf(module.operation).keepsFeatures(operand.getOperandNumber()))
      kept.push_back(operand.getOperandNumber());
  return kept;
}

TEST(Rules, FeaturesPassThroughWhatComputesThemOneByOne) {
  const std::string x = "%x: tensor<2x3x4xf32>", t = "tensor<2x3x4xf32>";
  using Kept = std::vector<unsigned>;
  EXPECT_EQ(keptFeatures(x, "nn.map relu(%x) : " + t), Kept({0}));
  EXPECT_EQ(keptFeatures(x + ", %y: " + t, "nn.mul %x, %y : " + t),
            Kept({0, 1}));
  EXPECT_EQ(keptFeatures("%x: tensor<2x3x24xf32>", packedAttention), Kept({0}));
  // A product makes new ones; a norm needs all of them.
  EXPECT_EQ(keptFeatures(x + ", %w: tensor<4x5xf32>",
                         "nn.linear %x, %w : (" + t +
                             ", tensor<4x5xf32>) -> tensor<2x3x5xf32>"),
            Kept({1}));
  EXPECT_EQ(keptFeatures(x + ", %w: tensor<4xf32>",
                         "nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (" + t +
                             ", tensor<4xf32>) -> (" + t +
                             ", tensor<2x3xf32>)"),
            Kept());
}

TEST(Rules, NormsOfManyInputs) {
  std::string arguments, names, types;
  for (int i = 0; i < 40; ++i) {
    std::string separator = i ? ", " : "", name = "%x" + std::to_string(i);
    std::string type = "tensor<" + std::to_string(i + 1) + "xf32>";
    arguments += separator + name + ": " + type;
    names += separator + name;
    types += separator + type;
  }
  CaseModule module = parseCase({"", arguments,
                                 "nn.global_norm " + names + " {summed} : (" +
                                     types + ") -> tensor<f32>"});
  ASSERT_TRUE(module.operation);
  EXPECT_TRUE(
      succeeded(dist::verifyRule(module.operation, ruleOf(module.operation))));
}

} // namespace
