//===- OptimizerTest.cpp - Kernels of updates against the reference -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "OptimizerTexts.h"
#include <gtest/gtest.h>

using namespace heddle::test;

namespace {

// One pass over flat memory, in place, with what an element of Adam needs.
TEST(OptimizerKernels, Update) {
  for (int64_t size : {1, 64, 1000})
    for (const char *condition : {"", "%lr"})
      for (const char *gradient : {"f32", "bf16", "f16"}) {
        UpdateText text =
            adamText(size, gradient, " {test.positive}", condition);
        KernelCheck{"plan.kernel @k(" + text.arguments + ") -> (" +
                        text.types() +
                        R"() attributes {generator = #plan.generator<rows>,
                                 ties = array<i64: 0, 2, 3, -1>} {)" +
                        text.body + "\nplan.yield " + text.values() + " : " +
                        text.types() + "\n}",
                    1e-5}
            .run();
      }
}

TEST(OptimizerKernels, UpdateThatIsSkipped) {
  KernelCheck{R"(
    plan.kernel @k(%p: tensor<100xf32>, %g: tensor<100xf32>, %m: tensor<100xf32>)
        -> (tensor<100xf32>, tensor<100xf32>, tensor<100xbf16>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
      %no = nn.fill 0.0 : () -> tensor<f32>
      %p1, %m1, %c = nn.update "sum" %p, %g states(%m) if %no
          : (tensor<100xf32>, tensor<100xf32>, tensor<100xf32>, tensor<f32>)
          -> (tensor<100xf32>, tensor<100xf32>, tensor<100xbf16>) {
      ^bb0(%a: f64, %b: f64, %c: f64):
        %0 = arith.addf %a, %b : f64
        nn.return %0, %b : f64, f64
      }
      plan.yield %p1, %m1, %c
          : tensor<100xf32>, tensor<100xf32>, tensor<100xbf16>
    })"}
      .run();
}

TEST(OptimizerKernels, AdvancePower) {
  KernelCheck{R"(
    plan.kernel @k(%p: tensor<f64>, %if: tensor<f32>)
        -> (tensor<f64>, tensor<f32>, tensor<f64>, tensor<f32>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1, -1>} {
      %no = nn.fill 0.0 : () -> tensor<f32>
      %0:2 = nn.advance_power %p by 0.999 if %if
          : (tensor<f64>, tensor<f32>) -> (tensor<f64>, tensor<f32>)
      %1:2 = nn.advance_power %p by 0.999 if %no
          : (tensor<f64>, tensor<f32>) -> (tensor<f64>, tensor<f32>)
      plan.yield %0#0, %0#1, %1#0, %1#1
          : tensor<f64>, tensor<f32>, tensor<f64>, tensor<f32>
    })"}
      .run();
}

TEST(OptimizerKernels, CountUpdate) {
  KernelCheck{R"(
    plan.kernel @k(%c: tensor<f64>, %if: tensor<f32>)
        -> (tensor<f64>, tensor<f64>, tensor<f64>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
      %no = nn.fill 0.0 : () -> tensor<f32>
      %0 = nn.count_update %c : (tensor<f64>) -> tensor<f64>
      %1 = nn.count_update %c if %if : (tensor<f64>, tensor<f32>) -> tensor<f64>
      %2 = nn.count_update %c if %no : (tensor<f64>, tensor<f32>) -> tensor<f64>
      plan.yield %0, %1, %2 : tensor<f64>, tensor<f64>, tensor<f64>
    })"}
      .run();
}

// Every index of the rates.
TEST(OptimizerKernels, TakeRate) {
  KernelCheck{R"(
    plan.kernel @k(%r: tensor<3xf32>, %p: tensor<f64>)
        -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1, -1>} {
      %zero, %c = nn.advance_power %p by 0.0 : (tensor<f64>) -> (tensor<f64>, tensor<f32>)
      %one = nn.count_update %zero : (tensor<f64>) -> tensor<f64>
      %two = nn.count_update %one : (tensor<f64>) -> tensor<f64>
      %three = nn.count_update %two : (tensor<f64>) -> tensor<f64>
      %0 = nn.take_rate %r[%zero] : (tensor<3xf32>, tensor<f64>) -> tensor<f32>
      %1 = nn.take_rate %r[%one] : (tensor<3xf32>, tensor<f64>) -> tensor<f32>
      %2 = nn.take_rate %r[%two] : (tensor<3xf32>, tensor<f64>) -> tensor<f32>
      %3 = nn.take_rate %r[%three] : (tensor<3xf32>, tensor<f64>) -> tensor<f32>
      plan.yield %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    })"}
      .run();
}

// Each case of the rule: what is left of the hysteresis, the least scale, the
// window, an end that is noted, and steps that double. Each comes with a norm
// that is finite, infinite and NaN.
TEST(OptimizerKernels, AdvanceLossScale) {
  for (const char *states :
       {"%one, %one, %zero, %zero", "%two, %two, %one, %zero",
        "%two, %one, %two, %zero", "%one, %one, %one, %one"})
    for (const char *norm : {"%x", "%infinite", "%x, %nan"})
      for (const char *rule :
           {"window = 2 : i64, hysteresis = 3 : i64, least = 1.0",
            "window = 0 : i64, hysteresis = 3 : i64, least = 1.5, "
            "consecutive"}) {
        std::string values = std::string(norm) == "%x, %nan"
                                 ? ", tensor<f32>, tensor<f32>"
                                 : ", tensor<f32>";
        std::string op =
            std::string("nn.advance_loss_scale ") + states + " of(" + norm +
            ") {" + rule +
            "} : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>" + values +
            ") -> (tensor<f32>, tensor<f32>, tensor<f32>, "
            "tensor<f32>, tensor<f32>)";
        SCOPED_TRACE(op);
        KernelCheck{R"(
    plan.kernel @k(%x: tensor<f32>)
        -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1, -1, -1>} {
      %zero = nn.fill 0.0 : () -> tensor<f32>
      %one = nn.fill 1.0 : () -> tensor<f32>
      %two = nn.fill 2.0 : () -> tensor<f32>
      %infinite = nn.fill 0x7FF0000000000000 : () -> tensor<f32>
      %nan = nn.fill 0x7FF8000000000000 : () -> tensor<f32>
      %r:5 = )" + op +
                    R"(
      plan.yield %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    })"}
            .run();
      }
}

} // namespace
