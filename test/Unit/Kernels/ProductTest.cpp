//===- ProductTest.cpp - Matrix products with fused operations, attention -===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

using namespace heddle::test;

namespace {

const char *const types[] = {"f32", "bf16"};

struct Sizes {
  const char *rows, *in, *out;
};
// Rows of one element, of an odd number of them, and of numbers that 2, 4 and 8
// divide; several tiles and several steps along k.
const Sizes sizes[] = {{"1x1", "1", "1"},    {"2x3", "7", "33"},
                       {"2x17", "40", "70"}, {"1x5", "66", "36"},
                       {"3x3", "20", "18"},  {"2x37", "136", "72"}};

void checkSizes(const std::string &text, const char *gradient = "f32") {
  for (auto [number, size] : llvm::enumerate(sizes))
    for (const char *type : typesOf(text + gradient, number)) {
      KernelCheck check{instantiate(text, {{"X", "tensor<$Rx$Ix$T>"},
                                           {"Y", "tensor<$Rx$Ox$T>"},
                                           {"W", "tensor<$Ix$Ox$T>"},
                                           {"V", "tensor<$Ox$Ix$T>"},
                                           {"B", "tensor<$Ox$T>"},
                                           {"F", "tensor<$Ix$Ox$D>"},
                                           {"G", "tensor<$Ox$Ix$D>"},
                                           {"D", gradient},
                                           {"R", size.rows},
                                           {"I", size.in},
                                           {"O", size.out},
                                           {"T", type}}),
                        5e-6};
      check.scalars = {2, 1};
      check.run();
    }
}

TEST(Products, Plain) {
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $W) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
      %y = nn.linear %x, %w : ($X, $W) -> $Y
      plan.yield %y : $Y
    })");
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $V) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
      %y = nn.linear %x, %w {transposed} : ($X, $V) -> $Y
      plan.yield %y : $Y
    })");
}

TEST(Products, BiasAndGelu) {
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $B) -> ($Y, $Y)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %f = nn.linear %x, %w bias %b : ($X, $W, $B) -> $Y
      %g = nn.map gelu_tanh(%f) : $Y
      plan.yield %g, %f : $Y, $Y
    })");
}

TEST(Products, BiasDropoutAndResidual) {
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $B, %r: $Y, %rng: tensor<4xi32>,
                   %layer: index, %micro: index) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: 3>} {
      %f = nn.linear %x, %w bias %b : ($X, $W, $B) -> $Y
      %d = nn.dropout %f rng %rng layer %layer micro_batch %micro
          {p = 0.5, site = 9 : i32} : ($Y, tensor<4xi32>, index, index) -> $Y
      %s = nn.add %d, %r : $Y
      plan.yield %s : $Y
    })");
}

TEST(Products, MapOfOthersAndAScalar) {
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $B, %r: $Y, %s: tensor<f32>) -> ($Y, $Y)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %f = nn.linear %x, %w bias %b : ($X, $W, $B) -> $Y
      %g:2 = nn.map (%a = %f, %c = %r, %d = %s)
          : ($Y, $Y, tensor<f32>) -> ($Y, $Y) {
        %0 = nn.logistic %a : f64
        %1 = arith.mulf %0, %c : f64
        %2 = arith.addf %1, %d : f64
        nn.return %1, %2 : f64, f64
      }
      plan.yield %g#0, %g#1 : $Y, $Y
    })");
}

TEST(Products, GeluGradient) {
  checkSizes(R"(
    plan.kernel @k(%x: $X, %w: $V, %f: $Y) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
      %d = nn.linear %x, %w {transposed} : ($X, $V) -> $Y
      %g = nn.map gelu_tanh_grad(%d, %f) : $Y
      plan.yield %g : $Y
    })");
}

TEST(Products, GradWeight) {
  for (const char *gradient : types) {
    for (const char *tie : {"-1", "2"})
      if (isLong() || (tie[0] == '2') == (gradient == types[0]))
        checkSizes(instantiate(R"(
    plan.kernel @k(%x: $X, %g: $Y, %i: $F) -> $F
        attributes {generator = #plan.generator<gemm>, ties = array<i64: $TIE>} {
      %d = nn.linear_grad_weight %x, %g init %i : ($X, $Y, $F) -> $F
      plan.yield %d : $F
    })",
                               {{"TIE", tie}}),
                   gradient);
    checkSizes(R"(
    plan.kernel @k(%x: $X, %g: $Y) -> $G
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
      %d = nn.linear_grad_weight %x, %g {transposed} : ($X, $Y) -> $G
      plan.yield %d : $G
    })",
               gradient);
  }
}

TEST(Products, Attention) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x5x24x$T>) -> ($RESULTS)
        attributes {generator = #plan.generator<attention>, ties = array<i64: $TIES>} {
      %y, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>}
          : (tensor<2x5x24x$T>) -> (tensor<2x5x8x$T>, tensor<2x2x5xf32>)
      plan.yield $YIELDS : $RESULTS
    })";
  for (const char *type : types) {
    KernelCheck{
        instantiate(text, {{"RESULTS", "tensor<2x5x8x$T>, tensor<2x2x5xf32>"},
                           {"TIES", "-1, -1"},
                           {"YIELDS", "%y, %lse"},
                           {"T", type}}),
        5e-6}
        .run();
    KernelCheck{instantiate(text, {{"RESULTS", "tensor<2x5x8x$T>"},
                                   {"TIES", "-1"},
                                   {"YIELDS", "%y"},
                                   {"T", type}}),
                5e-6}
        .run();
  }
}

} // namespace
