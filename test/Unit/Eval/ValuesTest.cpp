//===- ValuesTest.cpp - Evaluations against other formulas ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;
using eval::TensorMap;

static Tensor floats(ArrayRef<int64_t> shape, std::vector<double> values) {
  return Tensor(ElementKind::F32, shape, std::move(values));
}

static Tensor ints(ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  return Tensor(ElementKind::I32, shape, std::move(values));
}

/// The first result of one operation.
static std::vector<double> evaluate(const std::string &arguments,
                                    const std::string &body,
                                    const TensorMap &inputs,
                                    const std::string &result = "r0") {
  CaseModule module = parseCase({"", arguments, body});
  if (!module.operation)
    return {};
  return runModule(*module.module, inputs).at(result).floats().vec();
}

static void expectNear(const std::vector<double> &actual,
                       const std::vector<double> &expected,
                       double tolerance = 1e-12) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

TEST(Values, Embedding) {
  expectNear(evaluate("%w: tensor<3x2xf32>, %ids: tensor<1x2xi32>",
                      "nn.embedding %w[%ids] : (tensor<3x2xf32>, "
                      "tensor<1x2xi32>) -> tensor<1x2x2xf32>",
                      {{"w", floats({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"ids", ints({1, 2}, {2, 0})}}),
             {5, 6, 1, 2});
}

TEST(Values, EmbeddingGradAddsRepeatedIds) {
  expectNear(evaluate("%g: tensor<1x3x2xf32>, %ids: tensor<1x3xi32>",
                      "nn.embedding_grad %g[%ids] : (tensor<1x3x2xf32>, "
                      "tensor<1x3xi32>) -> tensor<3x2xf32>",
                      {{"g", floats({1, 3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"ids", ints({1, 3}, {2, 0, 2})}}),
             {3, 4, 0, 0, 6, 8});
}

TEST(Values, EmbeddingGradLeavesPaddingOut) {
  expectNear(evaluate("%g: tensor<1x3x2xf32>, %ids: tensor<1x3xi32>",
                      "nn.embedding_grad %g[%ids] {padding = 2 : i64} : "
                      "(tensor<1x3x2xf32>, tensor<1x3xi32>) -> tensor<3x2xf32>",
                      {{"g", floats({1, 3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"ids", ints({1, 3}, {2, 0, 2})}}),
             {3, 4, 0, 0, 0, 0});
}

// Values of scipy.special.erf and tanh to 16 digits.
TEST(Values, Activations) {
  TensorMap inputs = {{"x", floats({3}, {-1, 0.5, 2})}};
  auto run = [&](const std::string &op) {
    return evaluate("%x: tensor<3xf32>", op + " : tensor<3xf32>", inputs);
  };
  expectNear(run("nn.map gelu(%x)"),
             {-0.15865525393145707, 0.34573123063700656, 1.9544997361036416});
  expectNear(run("nn.map gelu_tanh(%x)"),
             {-0.15880800939172324, 0.3457140099013077, 1.954597694087775},
             1e-10);
  expectNear(run("nn.map silu(%x)"),
             {-0.2689414213699951, 0.3112296656009273, 1.7615941559557646});
  expectNear(run("nn.map relu(%x)"), {0, 0.5, 2});
  expectNear(run("nn.map relu_squared(%x)"), {0, 0.25, 4});
  expectNear(run("nn.map quick_gelu(%x)"),
             {-0.1542042340671787, 0.35038843660638014, 1.9356586231442083});
}

TEST(Values, LinearInBothLayouts) {
  TensorMap inputs = {{"x", floats({1, 3}, {1, 2, 3})},
                      {"w", floats({3, 2}, {1, 2, 3, 4, 5, 6})},
                      {"t", floats({2, 3}, {1, 3, 5, 2, 4, 6})},
                      {"b", floats({2}, {10, 20})}};
  expectNear(evaluate("%x: tensor<1x3xf32>, %w: tensor<3x2xf32>, %b: "
                      "tensor<2xf32>",
                      "nn.linear %x, %w bias %b : (tensor<1x3xf32>, "
                      "tensor<3x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>",
                      inputs),
             {32, 48});
  expectNear(evaluate("%x: tensor<1x3xf32>, %t: tensor<2x3xf32>",
                      "nn.linear %x, %t {transposed} : (tensor<1x3xf32>, "
                      "tensor<2x3xf32>) -> tensor<1x2xf32>",
                      inputs),
             {22, 28});
}

TEST(Values, LayerNormHasTheMomentsItSays) {
  CaseModule module = parseCase(
      {"", "%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>",
       "nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, "
       "tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, "
       "tensor<2xf32>)"});
  ASSERT_TRUE(module.operation);
  TensorMap outputs = runModule(
      *module.module, {{"x", floats({2, 4}, {1, 2, 3, 4, -2, 0, 0, 10})},
                       {"w", floats({4}, {1, 1, 2, 2})},
                       {"b", floats({4}, {0, 0, 0, 5})}});
  // E[x^2] - E[x]^2: 7.5 - 6.25 and 26 - 4.
  double first = 1 / std::sqrt(1.25 + 1e-5), second = 1 / std::sqrt(22 + 1e-5);
  expectNear(outputs.at("r1").floats().vec(), {2.5, 2});
  expectNear(outputs.at("r2").floats().vec(), {first, second});
  expectNear(outputs.at("r0").floats().vec(),
             {-1.5 * first, -0.5 * first, first, 3 * first + 5, -4 * second,
              -2 * second, -4 * second, 16 * second + 5});
}

TEST(Values, RmsNorm) {
  double rstd = 1 / std::sqrt(12.5);
  expectNear(
      evaluate("%x: tensor<1x2xf32>, %w: tensor<2xf32>",
               "nn.rms_norm %x, %w {eps = 0.0 : f64} : "
               "(tensor<1x2xf32>, tensor<2xf32>) -> (tensor<1x2xf32>, "
               "tensor<1xf32>)",
               {{"x", floats({1, 2}, {3, 4})}, {"w", floats({2}, {1, 10})}}),
      {3 * rstd, 40 * rstd});
}

// One head of size 1: scores are products of numbers.
TEST(Values, CausalAttention) {
  std::string body =
      "nn.attention %x {heads = #nn.heads<1, scale = 1.0>, mask = "
      "#nn.mask<causal>} : (tensor<1x2x3xf32>) -> (tensor<1x2x1xf32>, "
      "tensor<1x1x2xf32>)";
  TensorMap inputs = {{"x", floats({1, 2, 3}, {1, 2, 10, 0.5, 4, 20})}};
  double a = std::exp(0.5 * 2), b = std::exp(0.5 * 4);
  expectNear(evaluate("%x: tensor<1x2x3xf32>", body, inputs),
             {10, (10 * a + 20 * b) / (a + b)});
  expectNear(evaluate("%x: tensor<1x2x3xf32>", body, inputs, "r1"),
             {2, std::log(a + b)});
}

// Two rows of the same numbers: one of two tokens, one of none. The padding is
// no number.
TEST(Values, AttentionOfRowsOfUnequalLengths) {
  std::string arguments = "%x: tensor<2x3x3xf32>, %n: tensor<2xi32>";
  std::string body =
      "nn.attention %x lengths %n {heads = #nn.heads<1, scale = 1.0>, mask = "
      "#nn.mask<full>} : (tensor<2x3x3xf32>, tensor<2xi32>) -> "
      "(tensor<2x3x1xf32>, tensor<2x1x3xf32>)";
  double none = std::numeric_limits<double>::quiet_NaN();
  double lowest = std::numeric_limits<float>::lowest();
  Tensor lengths(ElementKind::I32, {2});
  lengths.mutableInts()[0] = 2;
  TensorMap inputs = {
      {"x", floats({2, 3, 3}, {1, 2, 10, 0.5, 4, 20, 0, none, none, 1, 2, 10,
                               0.5, 4, 20, 0, none, none})},
      {"n", lengths}};
  double a = std::exp(2), b = std::exp(4), c = std::exp(1), d = std::exp(2);
  expectNear(
      evaluate(arguments, body, inputs),
      {(10 * a + 20 * b) / (a + b), (10 * c + 20 * d) / (c + d), 15, 0, 0, 0});
  expectNear(
      evaluate(arguments, body, inputs, "r1"),
      {std::log(a + b), std::log(c + d), std::log(2), lowest, lowest, lowest});
}

TEST(Values, RotaryTurnsPairs) {
  double angle = 3;
  expectNear(
      evaluate("%x: tensor<1x1x2xf32>, %p: tensor<1x1xi32>",
               "nn.rotary %x at %p {heads = 1 : i64, dims = 2 : i64, "
               "theta = 10000.0 : f64} : (tensor<1x1x2xf32>, "
               "tensor<1x1xi32>) -> tensor<1x1x2xf32>",
               {{"x", floats({1, 1, 2}, {1, 0})}, {"p", ints({1, 1}, {3})}}),
      {std::cos(angle), std::sin(angle)});
}

TEST(Values, RotaryScaling) {
  // The rates 1, 0.1 and 0.01 at position 2, of pairs (1, 0).
  auto turned = [](const std::string &scaling) {
    return evaluate("%x: tensor<1x1x6xf32>, %p: tensor<1x1xi32>",
                    "nn.rotary %x at %p {heads = 1 : i64, dims = 6 : i64, "
                    "theta = 1000.0 : f64, scaling = #nn.rotary_scaling<" +
                        scaling +
                        " : f64>} : (tensor<1x1x6xf32>, tensor<1x1xi32>) -> "
                        "tensor<1x1x6xf32>",
                    {{"x", floats({1, 1, 6}, {1, 1, 1, 0, 0, 0})},
                     {"p", ints({1, 1}, {2})}});
  };
  auto expected = [](double a, double b, double c, double magnitude) {
    std::vector<double> values;
    for (double rate : {a, b, c})
      values.push_back(magnitude * std::cos(2 * rate));
    for (double rate : {a, b, c})
      values.push_back(magnitude * std::sin(2 * rate));
    return values;
  };
  expectNear(turned("all, factor = 4.0 : f64, low = 0.0 : f64, high = 0.0 : "
                    "f64, magnitude = 1.5"),
             expected(0.25, 0.025, 0.0025, 1.5));
  expectNear(turned("pairs, factor = 4.0 : f64, low = 0.0 : f64, high = 2.0 : "
                    "f64, magnitude = 1.0"),
             expected(1, 0.1 * (0.5 + 0.5 / 4), 0.0025, 1));
  expectNear(turned("rates, factor = 4.0 : f64, low = 0.05 : f64, high = 0.25 "
                    ": f64, magnitude = 1.0"),
             expected(1, 0.1 * (0.25 + 0.75 / 4), 0.0025, 1));
}

TEST(Values, CrossEntropyOfUniformLogits) {
  expectNear(evaluate("%x: tensor<2x4xf32>, %ids: tensor<2xi32>",
                      "nn.cross_entropy %x, %ids : (tensor<2x4xf32>, "
                      "tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)",
                      {{"x", floats({2, 4}, std::vector<double>(8, 3.0))},
                       {"ids", ints({2}, {1, -100})}}),
             {std::log(4.0), 0});
}

TEST(Values, LabelsThatCount) {
  TensorMap inputs = {{"ids", ints({3}, {1, -100, 0})},
                      {"w", floats({3}, {0.5, 8, 2})},
                      {"s", floats({}, {0.25})},
                      {"none", ints({1}, {-100})},
                      {"zero", floats({}, {0})}};
  expectNear(evaluate("%ids: tensor<3xi32>",
                      "nn.count_labels %ids : (tensor<3xi32>) -> tensor<f32>",
                      inputs),
             {2});
  expectNear(evaluate("%ids: tensor<3xi32>, %w: tensor<3xf32>",
                      "nn.count_labels %ids weights %w : (tensor<3xi32>, "
                      "tensor<3xf32>) -> tensor<f32>",
                      inputs),
             {2.5});
  expectNear(evaluate("%none: tensor<1xi32>",
                      "nn.count_labels %none : (tensor<1xi32>) -> tensor<f32>",
                      inputs),
             {0});
  expectNear(evaluate("%s: tensor<f32>",
                      "nn.loss_scale %s : (tensor<f32>) -> tensor<f32>",
                      inputs),
             {4});
  expectNear(evaluate("%zero: tensor<f32>",
                      "nn.loss_scale %zero : (tensor<f32>) -> tensor<f32>",
                      inputs),
             {0});
  expectNear(evaluate("%ids: tensor<3xi32>, %s: tensor<f32>",
                      "nn.token_weights %ids scale %s : (tensor<3xi32>, "
                      "tensor<f32>) -> tensor<3xf32>",
                      inputs),
             {0.25, 0, 0.25});
  expectNear(
      evaluate("%ids: tensor<3xi32>, %s: tensor<f32>, %w: tensor<3xf32>",
               "nn.token_weights %ids scale %s weights %w : (tensor<3xi32>, "
               "tensor<f32>, tensor<3xf32>) -> tensor<3xf32>",
               inputs),
      {0.125, 0, 0.5});
}

TEST(Values, SumsAndNorms) {
  TensorMap inputs = {{"x", floats({2}, {3, 4})},
                      {"y", floats({1}, {12})},
                      {"n", floats({}, {13})}};
  expectNear(evaluate("%x: tensor<2xf32>, %n: tensor<f32>",
                      "nn.sum %x init %n : (tensor<2xf32>, tensor<f32>) -> "
                      "tensor<f32>",
                      inputs),
             {20});
  expectNear(evaluate("%x: tensor<2xf32>, %w: tensor<2xf32>",
                      "nn.sum %x weights %w : (tensor<2xf32>, tensor<2xf32>) "
                      "-> tensor<f32>",
                      {{"x", floats({2}, {3, 4})}, {"w", floats({2}, {2, 0})}}),
             {6});
  expectNear(evaluate("%x: tensor<2xf32>, %y: tensor<1xf32>",
                      "nn.global_norm %x, %y : (tensor<2xf32>, tensor<1xf32>) "
                      "-> tensor<f32>",
                      inputs),
             {13});
  expectNear(evaluate("%x: tensor<2xf32>, %y: tensor<1xf32>",
                      "nn.global_norm %x, %y {summed} : (tensor<2xf32>, "
                      "tensor<1xf32>) -> tensor<f32>",
                      inputs),
             {std::sqrt(19.0)});
  expectNear(evaluate("%x: tensor<2xf32>",
                      "nn.square_sums %x : (tensor<2xf32>) -> tensor<1xf32>",
                      inputs),
             {25});
}

// p - lr g, and g is the new state; nothing changes where the condition is 0.
TEST(Values, Update) {
  for (double condition : {2.0, 0.0}) {
    TensorMap inputs = {{"p", floats({2}, {1, -2})},
                        {"g", floats({2}, {1, -50})},
                        {"m", floats({2}, {3, 4})},
                        {"lr", floats({}, {0.1})},
                        {"if", floats({}, {condition})}};
    std::string body =
        "nn.update \"sgd\" %p, %g states(%m) with(%lr) if %if : "
        "(tensor<2xf32>, "
        "tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> "
        "(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) { ^bb0(%a: f64, %b: "
        "f64, "
        "%c: f64, %d: f64): %0 = arith.mulf %b, %d : f64 %1 = arith.subf %a, "
        "%0 "
        ": f64 nn.return %1, %b : f64, f64 }";
    std::string arguments =
        "%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>, %lr: "
        "tensor<f32>, %if: tensor<f32>";
    std::vector<double> next = {0.9, 3}, state = {1, -50};
    if (condition == 0) {
      next = {1, -2};
      state = {3, 4};
    }
    expectNear(evaluate(arguments, body, inputs), next);
    expectNear(evaluate(arguments, body, inputs, "r1"), state);
    expectNear(evaluate(arguments, body, inputs, "r2"), next);
  }
}

TEST(Values, AdvancePower) {
  for (double condition : {1.0, 0.0}) {
    TensorMap inputs = {{"p", floats({}, {0.81})},
                        {"if", floats({}, {condition})}};
    std::string body = "nn.advance_power %p by 0.9 if %if : (tensor<f64>, "
                       "tensor<f32>) -> (tensor<f64>, tensor<f32>)";
    std::string arguments = "%p: tensor<f64>, %if: tensor<f32>";
    double next = condition != 0 ? 0.729 : 0.81;
    expectNear(evaluate(arguments, body, inputs), {next});
    expectNear(evaluate(arguments, body, inputs, "r1"), {1 - next});
  }
}

TEST(Values, CountUpdate) {
  std::string with = "nn.count_update %c if %if : (tensor<f64>, tensor<f32>) "
                     "-> tensor<f64>";
  std::string without = "nn.count_update %c : (tensor<f64>) -> tensor<f64>";
  std::string arguments = "%c: tensor<f64>, %if: tensor<f32>";
  for (double condition : {1.0, 0.0}) {
    TensorMap inputs = {{"c", floats({}, {7})},
                        {"if", floats({}, {condition})}};
    expectNear(evaluate(arguments, with, inputs), {7 + condition});
    expectNear(evaluate(arguments, without, inputs), {8});
  }
}

TEST(Values, TakeRate) {
  for (auto [count, rate] : {std::pair(0.0, 0.1), {4.0, 0.2}, {8.0, 0.3}})
    expectNear(evaluate("%r: tensor<3xf32>, %c: tensor<f64>",
                        "nn.take_rate %r[%c] : (tensor<3xf32>, tensor<f64>) -> "
                        "tensor<f32>",
                        {{"r", floats({3}, {0.1, 0.2, 0.3})},
                         {"c", floats({}, {count})}}),
               {rate});
}

/// Runs `body`, `count` operations nn.advance_loss_scale of successive steps,
/// and compares their results with the record of DeepSpeed's class.
static void expectScales(const nlohmann::json &pattern, const std::string &body,
                         size_t count) {
  CaseModule module =
      parseCase({"",
                 "%s: tensor<f32>, %l: tensor<f32>, %zero: tensor<f32>, %bad: "
                 "tensor<f32>",
                 body});
  ASSERT_TRUE(module.operation);
  SmallVector<Value> values;
  for (auto op : module.function.getBody().getOps<nn::AdvanceLossScaleOp>())
    for (Value result : {op.getNextScale(), op.getNextLeft(), op.getNextEnded(),
                         op.getUpdates()})
      values.push_back(result);
  returnValues(module.function, values);
  TensorMap results = runModule(
      *module.module,
      {{"s", floats({}, {pattern["initial"]})},
       {"l", floats({}, {pattern["hysteresis"]})},
       {"zero", floats({}, {0})},
       {"bad", floats({}, {std::numeric_limits<double>::infinity()})}});
  auto number = [&](size_t step, size_t result) {
    return results.at("r" + std::to_string(4 * step + result)).floats()[0];
  };
  auto overflows = pattern["overflows"].get<std::string>();
  for (size_t step = 0; step < count; ++step) {
    SCOPED_TRACE(pattern.dump() + " step " + std::to_string(step));
    bool ends = pattern["ended"] == step;
    EXPECT_EQ(number(step, 2), ends ? 1 : 0);
    EXPECT_EQ(number(step, 3), overflows[step] == '1' ? 0 : 1);
    // The step that ends the run changes nothing else.
    size_t next = step + 1 < count ? step + 1 : step;
    if (next == step && !ends)
      continue;
    EXPECT_EQ(number(step, 0), pattern["scales"][next].get<double>());
    EXPECT_EQ(number(step, 1), pattern["left"][next].get<double>());
  }
}

// The scales that DeepSpeed's class gave for each pattern of steps.
TEST(Values, AdvanceLossScale) {
  std::ifstream file(HEDDLE_TEST_ORACLES "/loss_scales.json");
  nlohmann::json record = nlohmann::json::parse(file);
  EXPECT_EQ(record.size(), 104u);
  for (const nlohmann::json &pattern : record) {
    std::string attributes =
        "{window = " + std::to_string(pattern["window"].get<int64_t>()) +
        " : i64, hysteresis = " +
        std::to_string(pattern["hysteresis"].get<int64_t>()) +
        " : i64, least = " + std::to_string(pattern["min"].get<double>()) +
        (pattern["consecutive"] ? ", consecutive}" : "}");
    // All steps in one function: each takes what the step before it gives.
    std::string body;
    std::string states = "%s, %l, %zero, %zero";
    auto overflows = pattern["overflows"].get<std::string>();
    size_t count = pattern["scales"].size();
    for (size_t step = 0; step < count; ++step) {
      std::string name = "%t" + std::to_string(step);
      body += name + ":5 = nn.advance_loss_scale " + states + " of(" +
              (overflows[step] == '1' ? "%zero, %bad" : "%zero, %s") + ") " +
              attributes +
              " : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, "
              "tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, "
              "tensor<f32>, tensor<f32>, tensor<f32>)\n";
      states = name + "#0, " + name + "#1, " + name + "#2, " + name + "#3";
    }
    expectScales(pattern, body, count);
  }
}

// Of segments of 64, 128 and 64 elements a run that ends in the second one: an
// index argument is 0 here.
TEST(Values, Segments) {
  TensorMap inputs = {{"x", floats({128}, std::vector<double>(128, 2))},
                      {"f", floats({3}, {5, 3, 7})}};
  std::string arguments =
      "%x: tensor<128xf32>, %f: tensor<3xf32>, %first: index";
  expectNear(
      evaluate(arguments,
               "nn.segment_sums %x first %first {segments = array<i64: "
               "64, 128, 64>} : (tensor<128xf32>, index) -> tensor<3xf32>",
               inputs),
      {64 * 4, 64 * 4, 0});
  std::vector<double> scaled(64, 10);
  scaled.resize(128, 6);
  expectNear(evaluate(arguments,
                      "nn.scale_segments %x by %f first %first {segments = "
                      "array<i64: 64, 128, 64>} : (tensor<128xf32>, "
                      "tensor<3xf32>, index) -> tensor<128xf32>",
                      inputs),
             scaled);
}

TEST(Values, DropoutKeepsItsShareAndScalesIt) {
  constexpr int64_t count = 40000;
  CaseModule module = parseCase(
      {"", "%x: tensor<40000xf32>, %rng: tensor<4xi32>, %l: index, %m: index",
       "nn.dropout %x rng %rng layer %l micro_batch %m {p = 0.3 : f64, site = "
       "7 : i32} : (tensor<40000xf32>, tensor<4xi32>, index, index) -> "
       "tensor<40000xf32>"});
  ASSERT_TRUE(module.operation);
  TensorMap inputs = {{"x", floats({count}, std::vector<double>(count, 1.0))},
                      {"rng", ints({4}, {99, 0, 5, 0})},
                      {"l", Tensor::scalar(2)},
                      {"m", Tensor::scalar(0)}};
  Tensor first = runModule(*module.module, inputs).at("r0");
  int64_t kept = 0;
  for (double value : first.floats()) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.7);
    kept += value != 0;
  }
  // Four standard deviations of a binomial.
  EXPECT_NEAR(double(kept) / count, 0.7, 4 * std::sqrt(0.21 / count));
  inputs["rng"] = ints({4}, {99, 0, 6, 0});
  Tensor second = runModule(*module.module, inputs).at("r0");
  int64_t same = 0;
  for (auto [a, b] : llvm::zip(first.floats(), second.floats()))
    same += a == b;
  EXPECT_NEAR(double(same) / count, 0.49 + 0.09, 0.02);
}

TEST(Values, RoundingToNarrowTypes) {
  EXPECT_EQ(eval::roundTo(ElementKind::BF16, 1 + 1.0 / 256), 1.0);
  EXPECT_EQ(eval::roundTo(ElementKind::BF16, 1 + 3.0 / 256), 1 + 1.0 / 64);
  EXPECT_EQ(eval::roundTo(ElementKind::F32, 0.1), double(0.1f));
  EXPECT_EQ(eval::roundTo(ElementKind::F16, 1 + 1.0 / 4096), 1.0);
}
