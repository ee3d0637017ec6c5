//===- ContractTest.cpp - Every nn computation keeps its contract *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

/// Operations of nn that are no computations: what holds, calls, reads, writes
/// and lays out.
static bool isStructural(StringRef name) {
  static const llvm::StringSet<> names = {
      "nn.model",       "nn.state", "nn.bucket", "nn.get",   "nn.set",
      "nn.func",        "nn.step",  "nn.return", "nn.call",  "nn.micro_batches",
      "nn.micro_batch", "nn.keep",  "nn.pack",   "nn.unpack"};
  return names.contains(name);
}

static SmallVector<RegisteredOperationName> computations() {
  SmallVector<RegisteredOperationName> result;
  for (RegisteredOperationName name : testContext().getRegisteredOperations())
    if (name.getDialectNamespace() == "nn" &&
        !isStructural(name.getStringRef()))
      result.push_back(name);
  return result;
}

TEST(Contract, EveryComputationHasAllFiveInterfaces) {
  EXPECT_GT(computations().size(), 30u);
  for (RegisteredOperationName name : computations()) {
    SCOPED_TRACE(name.getStringRef().str());
    EXPECT_TRUE(name.hasInterface<nn::DifferentiableOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::CostOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::ShardingRuleOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::ReferenceEvalOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::LinalgLoweringOpInterface>());
  }
}

TEST(Contract, EveryComputationHasACase) {
  llvm::StringSet<> covered;
  for (const OpCase &opCase : opCases())
    covered.insert(opCase.operation);
  for (RegisteredOperationName name : computations())
    EXPECT_TRUE(covered.contains(name.getStringRef()))
        << name.getStringRef().str() << " has no case in OpCases.cpp";
}

class ContractOf : public ::testing::TestWithParam<OpCase> {};

TEST_P(ContractOf, RuleAndCostFitTheOperation) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  ASSERT_EQ(module.operation->getName().getStringRef(), GetParam().operation);
  auto sharding = cast<nn::ShardingRuleOpInterface>(module.operation);
  EXPECT_TRUE(
      succeeded(dist::verifyRule(module.operation, sharding.getShardingRule())))
      << sharding.getShardingRule().str();
  auto cost = cast<nn::CostOpInterface>(module.operation);
  EXPECT_GE(cost.getFlops(), 0);
  EXPECT_GT(cost.getBytes(), 0);
}

TEST_P(ContractOf, EvaluatesToFiniteNumbersOfTheResultTypes) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  eval::TensorMap outputs =
      runModule(*module.module, inputsOf(module.function, GetParam().limit));
  ASSERT_EQ(outputs.size(), module.operation->getNumResults());
  for (auto [index, type] :
       llvm::enumerate(module.operation->getResultTypes())) {
    const eval::Tensor &value = outputs.at("r" + std::to_string(index));
    EXPECT_EQ(value.shape(), cast<RankedTensorType>(type).getShape());
    if (!eval::isFloat(value.kind()))
      continue;
    for (double element : value.floats())
      EXPECT_TRUE(std::isfinite(element));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ContractOf, ::testing::ValuesIn(opCases()),
                         caseName);
