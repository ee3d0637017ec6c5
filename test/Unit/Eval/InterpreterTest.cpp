//===- InterpreterTest.cpp - States, loops and kernels on tensors *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;
using eval::TensorMap;

namespace {

/// A model with this body, and an interpreter of it.
struct Subject {
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<eval::Interpreter> interpreter;

  explicit Subject(const std::string &body, bool fullPrecision = false) {
    std::string text =
        "nn.model @m family \"test\" phase \"train\" attributes {strategy = "
        "#dist.strategy<{}>, config = \"{}\", weights = {random = true, seed = "
        "1 : i64}} {\n" +
        body + "\n}\n";
    module = parseSourceString<ModuleOp>(text, &testContext());
    EXPECT_TRUE(module) << text;
    eval::InterpreterOptions options;
    options.fullPrecision = fullPrecision;
    if (module)
      interpreter = eval::Interpreter::create(*module, options);
  }

  std::vector<double> run(const TensorMap &inputs, const std::string &output) {
    TensorMap outputs;
    EXPECT_TRUE(
        succeeded(interpreter->run(nn::ProgramKind::Train, inputs, outputs)));
    return outputs.at(output).floats().vec();
  }
};

Tensor floats(ArrayRef<int64_t> shape, std::vector<double> values) {
  return Tensor(ElementKind::F32, shape, std::move(values));
}

} // namespace

TEST(Interpreter, StatesLiveOnAndMicroBatchesRunInOrder) {
  Subject subject(R"(
    nn.state @sum role accumulator : tensor<2xf32>
    nn.step @train(%x: tensor<3x2xf32>) -> tensor<2xf32>
        attributes {kind = #nn.program<train>,
                    inputs = [#nn.port<value, "x">],
                    outputs = [#nn.port<value, "out">]} {
      nn.micro_batches 3 {
      ^bb0(%i: index):
        %part = nn.micro_batch %x[%i] : tensor<3x2xf32> -> tensor<2xf32>
        %old = nn.get @sum : tensor<2xf32>
        %product = nn.mul %old, %old : tensor<2xf32>
        %new = nn.add %product, %part : tensor<2xf32>
        nn.set @sum, %new : tensor<2xf32>
        nn.return
      }
      %sum = nn.get @sum : tensor<2xf32>
      nn.return %sum : tensor<2xf32>
    })");
  TensorMap inputs = {{"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}};
  // ((0 + 1)^2 + 3)^2 + 5, ((0 + 2)^2 + 4)^2 + 6.
  EXPECT_EQ(subject.run(inputs, "out"), (std::vector<double>{21, 70}));
  TensorMap zeros = {{"x", floats({3, 2}, {0, 0, 0, 0, 0, 0})}};
  subject.interpreter->setState("sum", floats({2}, {2, 1}));
  EXPECT_EQ(subject.run(zeros, "out"), (std::vector<double>{256, 1}));
  EXPECT_EQ(subject.interpreter->state("sum").floats().vec(),
            (std::vector<double>{256, 1}));
}

TEST(Interpreter, BucketsPadTheirMembers) {
  Subject subject(R"(
    nn.state @a role accumulator : tensor<3xf32>
    nn.state @b role accumulator : tensor<2xf32>
    nn.bucket @both [@a, @b] : tensor<128xf32>
    nn.step @train() -> tensor<128xf32>
        attributes {kind = #nn.program<train>,
                    inputs = [], outputs = [#nn.port<value, "out">]} {
      %all = nn.get @both : tensor<128xf32>
      %twice = nn.add %all, %all : tensor<128xf32>
      nn.set @both, %twice : tensor<128xf32>
      nn.return %all : tensor<128xf32>
    })");
  subject.interpreter->setState("a", floats({3}, {1, 2, 3}));
  subject.interpreter->setState("b", floats({2}, {4, 5}));
  std::vector<double> expected(128);
  expected[0] = 1, expected[1] = 2, expected[2] = 3;
  expected[64] = 4, expected[65] = 5;
  EXPECT_EQ(subject.run({}, "out"), expected);
  EXPECT_EQ(subject.interpreter->state("b").floats().vec(),
            (std::vector<double>{8, 10}));
}

TEST(Interpreter, LaunchesExecuteTheirKernelsBody) {
  Subject subject(R"(
    plan.kernel @square_add(%x: tensor<2xf32>, %y: tensor<2xf32>)
        -> tensor<2xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: 1>} {
      %square = nn.mul %x, %x : tensor<2xf32>
      %sum = nn.add %square, %y : tensor<2xf32>
      plan.yield %sum : tensor<2xf32>
    }
    nn.step @train(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32>
        attributes {kind = #nn.program<train>,
                    inputs = [#nn.port<value, "x">, #nn.port<value, "y">],
                    outputs = [#nn.port<value, "out">]} {
      %z = plan.launch @square_add(%x, %y)
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      nn.return %z : tensor<2xf32>
    })");
  EXPECT_EQ(
      subject.run({{"x", floats({2}, {3, 4})}, {"y", floats({2}, {1, 0})}},
                  "out"),
      (std::vector<double>{10, 16}));
}

static const char *thirdAsBf16 = R"(
    nn.step @train(%x: tensor<1xf32>) -> tensor<1xbf16>
        attributes {kind = #nn.program<train>,
                    inputs = [#nn.port<value, "x">],
                    outputs = [#nn.port<value, "out">]} {
      %y = nn.cast %x : (tensor<1xf32>) -> tensor<1xbf16>
      nn.return %y : tensor<1xbf16>
    })";

TEST(Interpreter, RoundsToTheTypesOfTheIR) {
  TensorMap inputs = {{"x", floats({1}, {1.0 / 3})}};
  EXPECT_EQ(Subject(thirdAsBf16).run(inputs, "out"),
            std::vector<double>{0.333984375});
  EXPECT_EQ(Subject(thirdAsBf16, /*fullPrecision=*/true).run(inputs, "out"),
            std::vector<double>{1.0 / 3});
}

TEST(Interpreter, SaysWhatItCannotDo) {
  Subject subject(thirdAsBf16);
  std::string message;
  ScopedDiagnosticHandler handler(&testContext(),
                                  [&](mlir::Diagnostic &diagnostic) {
                                    message = diagnostic.str();
                                    return success();
                                  });
  TensorMap outputs;
  EXPECT_TRUE(
      failed(subject.interpreter->run(nn::ProgramKind::Train, {}, outputs)));
  EXPECT_EQ(message, "input 'x' is missing");
  TensorMap wrong = {{"x", floats({2}, {1, 2})}};
  EXPECT_TRUE(
      failed(subject.interpreter->run(nn::ProgramKind::Train, wrong, outputs)));
  EXPECT_EQ(message, "input 'x' does not fit 'tensor<1xf32>'");
  EXPECT_TRUE(
      failed(subject.interpreter->run(nn::ProgramKind::Generate, {}, outputs)));
  EXPECT_EQ(message, "has no program generate");
}
