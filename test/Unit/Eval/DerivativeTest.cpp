//===- DerivativeTest.cpp - Derivative rules against differences *- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Every operation with a derivative is executed twice a coordinate, and the
// quotient of differences compared with what its rule builds.
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

/// Takes gradients inside the forward function: a forward value is itself, and
/// the gradients of the first result are a new argument.
class TestContext : public nn::GradientContext {
public:
  TestContext(nn::FuncOp function, Operation *operation)
      : builder(function.getBody().front().getTerminator()) {
    result = operation->getResult(0);
    unsigned position = function.getNumArguments();
    function.insertArgument(position, result.getType(), {}, function.getLoc());
    gradient = function.getArgument(position);
    SmallVector<Attribute> ports(function.getInputsAttr().getValue());
    ports.push_back(valuePort(function.getContext(), "gradient"));
    function.setInputsAttr(builder.getArrayAttr(ports));
  }

  Value gradientOf(Value value) override {
    return value == result ? gradient : Value();
  }
  bool isActive(Value operand) override {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    return type && isa<FloatType>(type.getElementType());
  }
  Value forward(Value value) override { return value; }
  void add(Value operand, Value contribution) override {
    Value &sum = sums[operand];
    sum = sum ? builder
                    .create<nn::AddOp>(operand.getLoc(), operand.getType(), sum,
                                       contribution, ArrayAttr())
                    .getOutput()
              : contribution;
  }
  Value accumulator(Value operand) override { return {}; }
  void setAccumulated(Value operand, Value sum) override {
    sums[operand] = sum;
  }

  OpBuilder builder;
  Value result, gradient;
  llvm::DenseMap<Value, Value> sums;
};

class Derivative : public ::testing::TestWithParam<OpCase> {};

} // namespace

/// The sum of the first result's elements, each times its weight.
static double weightedSum(ModuleOp module, const eval::TensorMap &inputs,
                          const eval::Tensor &weights) {
  eval::Tensor result = runModule(module, inputs).at("r0");
  double sum = 0;
  for (auto [value, weight] : llvm::zip(result.floats(), weights.floats()))
    sum += value * weight;
  return sum;
}

/// Compares the gradient of one argument with central differences.
static void checkArgument(ModuleOp module, eval::TensorMap inputs,
                          const std::string &name, const eval::Tensor &gradient,
                          const eval::Tensor &weights) {
  constexpr double step = 1e-5, tolerance = 1e-7;
  for (int64_t i = 0; i < gradient.numElements(); ++i) {
    double at = inputs[name].floats()[i];
    inputs[name].mutableFloats()[i] = at + step;
    double above = weightedSum(module, inputs, weights);
    inputs[name].mutableFloats()[i] = at - step;
    double below = weightedSum(module, inputs, weights);
    inputs[name].mutableFloats()[i] = at;
    EXPECT_NEAR(gradient.floats()[i], (above - below) / (2 * step), tolerance)
        << "element " << i << " of " << name;
  }
}

TEST_P(Derivative, AgreesWithDifferences) {
  CaseModule forward = parseCase(GetParam()), backward = parseCase(GetParam());
  ASSERT_TRUE(forward.operation && backward.operation);
  auto rule = cast<nn::DifferentiableOpInterface>(backward.operation);
  if (!rule.getNotDifferentiableReason().empty())
    return;
  eval::TensorMap inputs = inputsOf(forward.function, GetParam().limit);
  TestContext context(backward.function, backward.operation);
  rule.buildGradient(context.builder, context);
  if (context.sums.empty()) // It depends on no float.
    return;

  SmallVector<Value> gradients;
  SmallVector<std::string> names;
  for (auto [argument, port] :
       llvm::zip(backward.function.getArguments(),
                 backward.function.getInputsAttr().getAsRange<nn::PortAttr>()))
    if (Value gradient = context.sums.lookup(argument)) {
      gradients.push_back(gradient);
      names.push_back(port.getKey().str());
    }
  returnValues(backward.function, gradients);
  eval::TensorMap all = inputsOf(backward.function, GetParam().limit);
  for (auto &[name, value] : inputs)
    all[name] = value;
  eval::TensorMap results = runModule(*backward.module, all);
  for (auto [index, name] : llvm::enumerate(names))
    checkArgument(*forward.module, inputs, name,
                  results.at("r" + std::to_string(index)), all["gradient"]);
}

INSTANTIATE_TEST_SUITE_P(Ops, Derivative, ::testing::ValuesIn(opCases()),
                         caseName);
