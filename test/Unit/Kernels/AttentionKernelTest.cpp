//===- AttentionKernelTest.cpp - The gradient of attention as a kernel ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The numbers themselves are tested at length in test/Unit/Attention.

#include "KernelHarness.h"
#include "KernelReference.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

struct Texts {
  const char *forward, *gradient;
};

const Texts packed = {
    R"(plan.kernel @k(%x: tensor<2x5x24xf32>) -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %x {heads = 2, kv_heads = 2, scale = 0.5, causal}
          : (tensor<2x5x24xf32>) -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
      plan.yield %y, %lse : tensor<2x5x8xf32>, tensor<2x2x5xf32>
    })",
    R"(plan.kernel @k(%g: tensor<2x5x8xf32>, %x: tensor<2x5x24xf32>,
                      %y: tensor<2x5x8xf32>, %lse: tensor<2x2x5xf32>) -> tensor<2x5x24xf32>
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
      %d = nn.attention_grad %g, %x forward %y lse %lse
          {heads = 2, kv_heads = 2, scale = 0.5, causal}
          : (tensor<2x5x8xf32>, tensor<2x5x24xf32>, tensor<2x5x8xf32>, tensor<2x2x5xf32>)
          -> tensor<2x5x24xf32>
      plan.yield %d : tensor<2x5x24xf32>
    })"};

const Texts apart = {
    R"(plan.kernel @k(%q: tensor<2x5x8xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>)
        -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %q, %k, %v {heads = 2, kv_heads = 1, scale = 0.5}
          : (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
          -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
      plan.yield %y, %lse : tensor<2x5x8xf32>, tensor<2x2x5xf32>
    })",
    R"(plan.kernel @k(%g: tensor<2x5x8xf32>, %q: tensor<2x5x8xf32>, %k: tensor<2x5x4xf32>,
                      %v: tensor<2x5x4xf32>, %y: tensor<2x5x8xf32>, %lse: tensor<2x2x5xf32>)
        -> (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1, -1>} {
      %d:3 = nn.attention_grad %g, %q, %k, %v forward %y lse %lse
          {heads = 2, kv_heads = 1, scale = 0.5}
          : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>,
             tensor<2x5x8xf32>, tensor<2x2x5xf32>)
          -> (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
      plan.yield %d#0, %d#1, %d#2 : tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>
    })"};

/// One part of the keys, as a ring of ranks meets it: seen by all queries, by
/// some, by none.
std::array<std::string, 2> inTurn(const std::string &rest) {
  std::string types = "tensor<2x$Tx8xf32>, tensor<2x$Tx4xf32>, "
                      "tensor<2x$Tx4xf32>",
              random = ", tensor<4xi32>, index, index, index, index";
  std::string at =
      " rng %rng layer %l micro_batch %m place %p turn %t {heads = "
      "2, kv_heads = 1, scale = 0.5, places = 3" +
      rest + "} : (";
  std::string scalars = ", %rng: tensor<4xi32>, %l: index, %m: index, %p: "
                        "index, %t: index)";
  std::string inputs =
      "%q: tensor<2x$Tx8xf32>, %k: tensor<2x$Tx4xf32>, %v: tensor<2x$Tx4xf32>";
  std::string results = "(tensor<2x$Tx8xf32>, tensor<2x2x$Txf32>)";
  std::string forward =
      "plan.kernel @k(" + inputs + scalars + " -> " + results +
      R"( attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %q, %k, %v)" +
      at + types + random + ") -> " + results +
      "\n plan.yield %y, %lse : tensor<2x$Tx8xf32>, tensor<2x2x$Txf32> }";
  std::string gradient =
      "plan.kernel @k(%g: tensor<2x$Tx8xf32>, " + inputs +
      ", %y: tensor<2x$Tx8xf32>, %lse: tensor<2x2x$Txf32>" + scalars + " -> (" +
      types +
      R"() attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1, -1>} {
      %d:3 = nn.attention_grad %g, %q, %k, %v forward %y lse %lse)" +
      at + "tensor<2x$Tx8xf32>, " + types +
      ", tensor<2x$Tx8xf32>, tensor<2x2x$Txf32>" + random + ") -> (" + types +
      ")\n plan.yield %d#0, %d#1, %d#2 : " + types + " }";
  return {forward, gradient};
}

TEST(AttentionKernels, InTurns) {
  for (const char *rest :
       {", causal", "", ", causal, p = 0.25, site = 7 : i32"})
    // Keys of the same place, of one before, and of one behind.
    for (auto [length, place, turn] :
         {std::tuple<const char *, int64_t, int64_t>{"1", 1, 0},
          {"8", 2, 1},
          {"20", 1, 2},
          {"70", 1, 0},
          {"70", 2, 1}})
      for (const std::string &text : inTurn(rest)) {
        KernelCheck check{instantiate(text, {{"T", length}}), 1e-5};
        check.scalars = {11, 3, place, turn};
        check.least = -2000000000;
        check.limit = 2000000000;
        check.run();
      }
}

// The gradient is defined by the forward pass that it is given, whatever that
// was: another mask of dropout, for one, than its own.
TEST(AttentionKernels, AnyForwardPass) {
  for (const Texts *texts : {&packed, &apart})
    KernelCheck{texts->gradient, 1e-5}.run();
}

void checkGradient(const Texts &texts) {
  DialectRegistry registry;
  cpu::registerKernelCompiler(registry);
  auto context = createKernelContext(registry);
  auto forwardModule =
      parseSourceString<ModuleOp>(texts.forward, context.get());
  auto gradientModule =
      parseSourceString<ModuleOp>(texts.gradient, context.get());
  ASSERT_TRUE(forwardModule && gradientModule);
  auto forward = *forwardModule->getOps<planir::KernelOp>().begin();
  auto gradient = *gradientModule->getOps<planir::KernelOp>().begin();

  // The output's gradient, q, k, v, then what the forward pass makes of them.
  std::vector<eval::Tensor> arguments =
      randomArguments(gradient, {texts.gradient});
  size_t inputs = forward.getArgumentTypes().size();
  std::vector<eval::Tensor> results =
      evaluate(forward, ArrayRef(arguments).slice(1, inputs));
  std::copy(results.begin(), results.end(), arguments.begin() + 1 + inputs);

  std::vector<eval::Tensor> expected = evaluate(gradient, arguments);
  LoadedKernel loaded(gradient, *cpu::CpuTarget::parse("native"));
  for (int64_t threads : {1, 2, 5}) {
    std::vector<eval::Tensor> actual =
        execute(gradient, arguments, [&](const std::vector<void *> &refs) {
          loaded.run(refs, {}, threads);
        });
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(actual[i], expected[i], 1e-5, "gradient " + std::to_string(i));
  }
}

TEST(AttentionKernels, PackedGradient) { checkGradient(packed); }

TEST(AttentionKernels, GradientWithFewerKeyHeads) { checkGradient(apart); }

} // namespace
