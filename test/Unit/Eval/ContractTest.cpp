//===- ContractTest.cpp - Every nn computation keeps its contract *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

/// Operations of nn that are no computations of tensors: what holds, calls,
/// reads, writes and lays out, and scalars in the body of nn.map.
static bool isStructural(StringRef name) {
  static const llvm::StringSet<> names = {
      "nn.model", "nn.state",         "nn.bucket",      "nn.get",
      "nn.set",   "nn.func",          "nn.step",        "nn.return",
      "nn.call",  "nn.micro_batches", "nn.micro_batch", "nn.keep",
      "nn.pack",  "nn.unpack",        "nn.logistic",    "nn.condition"};
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

TEST(Contract, EveryComputationHasAllSixInterfaces) {
  EXPECT_GT(computations().size(), 30u);
  for (RegisteredOperationName name : computations()) {
    SCOPED_TRACE(name.getStringRef().str());
    EXPECT_TRUE(name.hasInterface<nn::DifferentiableOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::CostOpInterface>());
    EXPECT_TRUE(name.hasInterface<nn::PropertiesOpInterface>());
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
  double bytes = 0;
  for (Value operand : module.operation->getOperands())
    bytes += cost.getBytesOf(operand);
  for (Value result : module.operation->getResults()) {
    EXPECT_GT(cost.getBytesOf(result), 0);
    bytes += cost.getBytesOf(result);
  }
  EXPECT_GT(bytes, 0);
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

//===----------------------------------------------------------------------===//
// What operations say of themselves, against what they do
//===----------------------------------------------------------------------===//

namespace {

/// Which elements of which results change when one element of an operand does.
class Dependence {
public:
  Dependence(CaseModule &module, int64_t limit)
      : module(module), inputs(inputsOf(module.function, limit)) {
    for (auto [argument, port] :
         llvm::zip(module.function.getArguments(),
                   module.function.getInputsAttr().getAsRange<nn::PortAttr>()))
      names[argument] = port.getKey().str();
    before = runModule(*module.module, inputs);
  }

  static constexpr double step = 0.125;

  /// By how much element `to` of result `number` changes.
  double change(Value operand, int64_t from, unsigned number, int64_t to) {
    std::string name = "r" + std::to_string(number);
    return move(operand, from).at(name).floats()[to] -
           before.at(name).floats()[to];
  }

  /// The changed elements of every result.
  std::vector<std::vector<int64_t>> changed(Value operand, int64_t element) {
    eval::TensorMap after = move(operand, element);
    std::vector<std::vector<int64_t>> results(before.size());
    for (size_t number = 0; number < results.size(); ++number) {
      std::string name = "r" + std::to_string(number);
      const eval::Tensor &tensor = after.at(name);
      if (eval::isFloat(tensor.kind()))
        for (int64_t i = 0; i < tensor.numElements(); ++i)
          if (tensor.floats()[i] != before.at(name).floats()[i])
            results[number].push_back(i);
    }
    return results;
  }

  /// Whether the results double as the operand does.
  bool doubles(Value operand) {
    eval::TensorMap doubled = inputs;
    for (double &element : doubled[names[operand]].mutableFloats())
      element *= 2;
    eval::TensorMap after = runModule(*module.module, doubled);
    for (auto &[name, tensor] : before)
      for (int64_t i = 0; i < tensor.numElements(); ++i)
        if (after.at(name).floats()[i] != 2 * tensor.floats()[i])
          return false;
    return true;
  }

private:
  eval::TensorMap move(Value operand, int64_t element) {
    eval::TensorMap moved = inputs;
    moved[names[operand]].mutableFloats()[element] += step;
    return runModule(*module.module, moved);
  }

  CaseModule &module;
  eval::TensorMap inputs, before;
  llvm::DenseMap<Value, std::string> names;
};

RankedTensorType tensorOf(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

bool isFloatTensor(Value value) {
  RankedTensorType type = tensorOf(value);
  return type && isa<FloatType>(type.getElementType());
}

/// Whether `holds(from, to)` for all elements of float operands that `reads`
/// chooses and the elements of results that depend on them.
bool dependsOnly(CaseModule &module, int64_t limit,
                 llvm::function_ref<bool(RankedTensorType)> reads,
                 llvm::function_ref<bool(RankedTensorType, int64_t,
                                         RankedTensorType, int64_t)>
                     holds) {
  Dependence dependence(module, limit);
  for (Value operand : module.operation->getOperands()) {
    if (!isFloatTensor(operand) || !reads(tensorOf(operand)))
      continue;
    for (int64_t from = 0; from < tensorOf(operand).getNumElements(); ++from)
      for (auto [result, elements] :
           llvm::zip(module.operation->getResults(),
                     dependence.changed(operand, from)))
        for (int64_t to : elements)
          if (!holds(tensorOf(operand), from, tensorOf(result), to))
            return false;
  }
  return true;
}

/// Whether all tensors that the operation reads have the results' shape, or
/// none, and each element comes from its own place.
bool behavesElementwise(CaseModule &module, int64_t limit) {
  ArrayRef<int64_t> shape = tensorOf(module.operation->getResult(0)).getShape();
  bool reads = false;
  for (Value operand : module.operation->getOperands()) {
    if (!isFloatTensor(operand))
      continue;
    if (tensorOf(operand).getRank() > 0 &&
        tensorOf(operand).getShape() != shape)
      return false;
    reads |= tensorOf(operand).getRank() > 0;
  }
  for (Value result : module.operation->getResults())
    if (tensorOf(result).getShape() != shape)
      return false;
  return reads && !shape.empty() &&
         dependsOnly(
             module, limit,
             [](RankedTensorType type) { return type.getRank() > 0; },
             [](RankedTensorType, int64_t from, RankedTensorType, int64_t to) {
               return from == to;
             });
}

} // namespace

TEST_P(ContractOf, ElementwiseIsWhatComputesElementsOneByOne) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  EXPECT_EQ(module.operation->hasTrait<nn::Elementwise>(),
            behavesElementwise(module, GetParam().limit));
  EXPECT_TRUE(!module.operation->hasTrait<nn::Elementwise>() ||
              module.operation->hasTrait<nn::Rowwise>());
}

/// A row of the results depends on no other row of what has these rows.
TEST_P(ContractOf, RowwiseReadsItsOwnRows) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  if (!module.operation->hasTrait<nn::Rowwise>())
    return;
  auto lowering = cast<nn::LinalgLoweringOpInterface>(module.operation);
  EXPECT_EQ(lowering.getGenerator(), nn::Generator::Rows);
  ArrayRef<int64_t> domain =
      cast<nn::PropertiesOpInterface>(module.operation).getDomain();
  ArrayRef<int64_t> rows = domain.drop_back();
  auto hasRows = [&](RankedTensorType type) {
    return type.getShape() == domain || type.getShape() == rows;
  };
  auto rowOf = [&](RankedTensorType type, int64_t element) {
    return type.getShape() == rows ? element : element / domain.back();
  };
  for (Value result : module.operation->getResults())
    EXPECT_TRUE(hasRows(tensorOf(result)));
  EXPECT_TRUE(
      dependsOnly(module, GetParam().limit, hasRows,
                  [&](RankedTensorType from, int64_t i, RankedTensorType to,
                      int64_t j) { return rowOf(from, i) == rowOf(to, j); }));
}

/// What is linear in an operand doubles with it.
TEST_P(ContractOf, DoublesWithWhatItIsLinearIn) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  auto properties = cast<nn::PropertiesOpInterface>(module.operation);
  Dependence dependence(module, GetParam().limit);
  for (OpOperand &operand : module.operation->getOpOperands())
    if (properties.isLinearIn(operand))
      EXPECT_TRUE(dependence.doubles(operand.get()));
}

/// [B, T, C] to [B, T, C]: whether a token's features depend on another's.
TEST_P(ContractOf, PositionsAreMixedWhereItSaysSo) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  RankedTensorType result = tensorOf(module.operation->getResult(0));
  auto hasTokens = [&](RankedTensorType type) {
    return type.getRank() == 3 && result.getRank() == 3 &&
           type.getShape().take_front(2) == result.getShape().take_front(2);
  };
  bool mixes = !dependsOnly(
      module, GetParam().limit, hasTokens,
      [&](RankedTensorType from, int64_t i, RankedTensorType to, int64_t j) {
        return !hasTokens(to) || i / from.getDimSize(2) == j / to.getDimSize(2);
      });
  EXPECT_EQ(module.operation->hasTrait<nn::MixesPositions>(), mixes);
}

/// What reads no tensor, and computes nothing, is there anyway.
TEST_P(ContractOf, WhatComputesNothingIsMadeAnew) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  bool reads = llvm::any_of(module.operation->getOperands(),
                            [](Value value) { return bool(tensorOf(value)); });
  EXPECT_EQ(module.operation->hasTrait<nn::Rematerializable>(), !reads);
  auto cost = cast<nn::CostOpInterface>(module.operation);
  EXPECT_LE(cost.getModelFlops(), cost.getFlops());
  // What has a generator of its own for products has the model's FLOPs. What
  // joins parts of attention has that generator, and no products.
  nn::Generator generator =
      cast<nn::LinalgLoweringOpInterface>(module.operation).getGenerator();
  EXPECT_EQ(cost.getModelFlops() > 0,
            generator == nn::Generator::Gemm ||
                (generator == nn::Generator::Attention &&
                 !isa<nn::PagedAttentionJoinOp>(module.operation)));
}

/// A result stays f32 where the operation takes no other type for it.
TEST_P(ContractOf, ResultsStayF32WhereTheyMustBe) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  auto properties = cast<nn::PropertiesOpInterface>(module.operation);
  for (OpResult result : module.operation->getResults()) {
    RankedTensorType type = tensorOf(result);
    if (!isFloatTensor(result))
      continue;
    std::string number = std::to_string(result.getResultNumber()), errors;
    ScopedDiagnosticHandler handler(&testContext(),
                                    [&](mlir::Diagnostic &diagnostic) {
                                      errors += diagnostic.str() + "\n";
                                    });
    result.setType(type.clone(BFloat16Type::get(&testContext())));
    (void)verify(module.operation);
    result.setType(type);
    bool refused = StringRef(errors).contains("result #" + number + " must be");
    EXPECT_EQ(properties.staysF32(result.getResultNumber()), refused) << errors;
  }
}

/// What a sum is added to comes out again, in the result.
TEST_P(ContractOf, SumsAreAddedToTheirInits) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  SmallVector<nn::Init> inits = nn::initsOf(module.operation);
  unsigned named =
      llvm::count_if(module.function.getInputsAttr().getAsRange<nn::PortAttr>(),
                     [](nn::PortAttr port) { return port.getKey() == "i"; });
  EXPECT_EQ(inits.size(), named) << "sums start from %i";
  Dependence dependence(module, GetParam().limit);
  for (nn::Init &init : inits) {
    Value operand = init.operand[0].get();
    ASSERT_EQ(tensorOf(operand).getShape(), tensorOf(init.result).getShape());
    unsigned number = cast<OpResult>(init.result).getResultNumber();
    for (int64_t i = 0; i < tensorOf(operand).getNumElements(); ++i)
      EXPECT_NEAR(dependence.change(operand, i, number, i), Dependence::step,
                  1e-9);
  }
}

/// What may share memory has one size, and sums may with what they add to.
TEST_P(ContractOf, TiesAreOfOneSize) {
  CaseModule module = parseCase(GetParam());
  ASSERT_TRUE(module.operation);
  auto properties = cast<nn::PropertiesOpInterface>(module.operation);
  SmallVector<nn::Tie> ties = properties.getTies();
  for (const nn::Tie &tie : ties) {
    EXPECT_EQ(tie.result.getDefiningOp(), module.operation);
    EXPECT_TRUE(
        llvm::is_contained(module.operation->getOperands(), tie.operand));
    EXPECT_EQ(tie.result.getType(), tie.operand.getType());
  }
  for (const nn::Init &init : nn::initsOf(module.operation))
    EXPECT_TRUE(llvm::any_of(
        ties, [&](const nn::Tie &tie) { return tie.result == init.result; }));
}

INSTANTIATE_TEST_SUITE_P(Ops, ContractOf, ::testing::ValuesIn(opCases()),
                         caseName);
