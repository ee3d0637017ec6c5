//===- NormTest.cpp - Norms and sums over rows against the reference ------===//
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

struct Shape {
  const char *rows, *columns;
};
const Shape shapes[] = {
    {"1x1", "1"}, {"2x3", "7"}, {"1x5", "33"}, {"3x2", "96"}, {"1x3", "768"}};
/// On a GPU: rows of several wide accesses for each thread that end in the
/// midst of them, rows that begin anywhere, several rows for each block.
const Shape keptShapes[] = {{"1x2", "2600"}, {"1x3", "2603"}, {"1x1283", "24"}};
const char *const types[] = {"f32", "bf16", "f16"};

void checkAll(const std::string &text, double tolerance = 5e-6,
              const char *gradient = "f32",
              llvm::ArrayRef<Shape> cases = shapes) {
  for (auto [number, shape] : llvm::enumerate(cases))
    for (const char *type : typesOf(text + gradient, number))
      KernelCheck{instantiate(text, {{"X", "tensor<$Rx$Cx$T>"},
                                     {"W", "tensor<$Cx$T>"},
                                     {"S", "tensor<$Rxf32>"},
                                     {"F", "tensor<$Cx$G>"},
                                     {"G", gradient},
                                     {"R", shape.rows},
                                     {"C", shape.columns},
                                     {"T", type}}),
                  tolerance}
          .run();
}

/// A kernel of the generator `rows`.
void checkRows(const std::string &text, double tolerance = 5e-6) {
  checkAll(text, tolerance);
  checkAll(text, tolerance, "f32", keptShapes);
}

/// With gradients of parameters, $F, in f32 and rounded to bf16.
void checkGradients(const std::string &text) {
  for (const char *gradient : types)
    checkAll(text, 5e-6, gradient);
}

TEST(Norms, LayerNorm) {
  checkRows(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $W) -> ($X, $S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
      %y, %m, %r = nn.layer_norm %x, %w, %b {eps = 1.0e-5}
          : ($X, $W, $W) -> ($X, $S, $S)
      plan.yield %y, %m, %r : $X, $S, $S
    })",
            2e-5);
}

/// The sum is stored where the residual was, and read again by the norm.
TEST(Norms, ResidualAndLayerNorm) {
  checkRows(R"(
    plan.kernel @k(%x: $X, %res: $X, %w: $W, %b: $W) -> ($X, $X, $S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: 1, -1, -1, -1>} {
      %s = nn.add %x, %res : $X
      %y, %m, %r = nn.layer_norm %s, %w, %b {eps = 1.0e-5}
          : ($X, $W, $W) -> ($X, $S, $S)
      plan.yield %s, %y, %m, %r : $X, $X, $S, $S
    })",
            2e-5);
}

TEST(Norms, DropoutResidualAndLayerNorm) {
  std::string text = R"(
    plan.kernel @k(%x: $X, %res: $X, %w: $W, %b: $W, %rng: tensor<4xi32>,
                   %layer: index, %micro: index) -> ($X, $X, $S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1, -1>} {
      %d = nn.dropout %x rng %rng layer %layer micro_batch %micro
          {p = 0.1, site = 5 : i32} : ($X, tensor<4xi32>, index, index) -> $X
      %s = nn.add %d, %res : $X
      %y, %m, %r = nn.layer_norm %s, %w, %b {eps = 1.0e-5}
          : ($X, $W, $W) -> ($X, $S, $S)
      plan.yield %s, %y, %m, %r : $X, $X, $S, $S
    })";
  for (const char *type : types) {
    KernelCheck check{instantiate(text, {{"X", "tensor<3x4x40x$T>"},
                                         {"W", "tensor<40x$T>"},
                                         {"S", "tensor<3x4xf32>"},
                                         {"T", type}}),
                      2e-5};
    check.scalars = {3, 1};
    check.limit = 1000000;
    check.run();
  }
}

TEST(Norms, LayerNormGradInput) {
  checkRows(R"(
    plan.kernel @k(%g: $X, %x: $X, %w: $W, %m: $S, %r: $S {test.positive}, %o: $X)
        -> $X attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %d = nn.layer_norm_grad_input %g, %x, %w, %m, %r
          : ($X, $X, $W, $S, $S) -> $X
      %y = nn.add %d, %o : $X
      plan.yield %y : $X
    })",
            2e-5);
}

TEST(Norms, LayerNormGradWeight) {
  checkGradients(R"(
    plan.kernel @k(%g: $X, %x: $X, %m: $S, %r: $S {test.positive}, %wi: $F, %bi: $F)
        -> ($F, $F) attributes {generator = #plan.generator<columns>, ties = array<i64: 4, 5>} {
      %w, %b = nn.layer_norm_grad_weight %g, %x, %m, %r weight_init %wi bias_init %bi
          : ($X, $X, $S, $S, $F, $F) -> ($F, $F)
      plan.yield %w, %b : $F, $F
    })");
  checkGradients(R"(
    plan.kernel @k(%g: $X, %x: $X, %m: $S, %r: $S {test.positive})
        -> ($F, $F) attributes {generator = #plan.generator<columns>, ties = array<i64: -1, -1>} {
      %w, %b = nn.layer_norm_grad_weight %g, %x, %m, %r : ($X, $X, $S, $S) -> ($F, $F)
      plan.yield %w, %b : $F, $F
    })");
}

TEST(Norms, SumRows) {
  checkGradients(R"(
    plan.kernel @k(%x: $X, %i: $F) -> $F
        attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
      %y = nn.sum_rows %x init %i : ($X, $F) -> $F
      plan.yield %y : $F
    })");
  // More rows than one block of the summation, and several wide steps.
  checkAll(instantiate(R"(
    plan.kernel @k(%x: tensor<3x67x200x$T>) -> tensor<200xf32>
        attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
      %y = nn.sum_rows %x : (tensor<3x67x200x$T>) -> tensor<200xf32>
      plan.yield %y : tensor<200xf32>
    })",
                       {}));
  // On a GPU, blocks share the rows, unevenly; of the last ones some are beyond
  // the end.
  for (const char *type : types)
    for (const char *columns : {"5", "50", "264"})
      KernelCheck{instantiate(R"(
    plan.kernel @k(%x: tensor<1031x$Cx$T>, %i: tensor<$Cxf32>) -> tensor<$Cxf32>
        attributes {generator = #plan.generator<columns>, ties = array<i64: 1>} {
      %y = nn.sum_rows %x init %i
          : (tensor<1031x$Cx$T>, tensor<$Cxf32>) -> tensor<$Cxf32>
      plan.yield %y : tensor<$Cxf32>
    })",
                              {{"C", columns}, {"T", type}}),
                  5e-6}
          .run();
  KernelCheck{R"(
    plan.kernel @k(%g: tensor<3x171x96xbf16>, %x: tensor<3x171x96xbf16>,
                   %m: tensor<3x171xf32>, %r: tensor<3x171xf32> {test.positive})
        -> (tensor<96xbf16>, tensor<96xbf16>)
        attributes {generator = #plan.generator<columns>, ties = array<i64: -1, -1>} {
      %w, %b = nn.layer_norm_grad_weight %g, %x, %m, %r
          : (tensor<3x171x96xbf16>, tensor<3x171x96xbf16>, tensor<3x171xf32>,
             tensor<3x171xf32>) -> (tensor<96xbf16>, tensor<96xbf16>)
      plan.yield %w, %b : tensor<96xbf16>, tensor<96xbf16>
    })",
              5e-6}
      .run();
}

TEST(Norms, RmsNorm) {
  checkRows(R"(
    plan.kernel @k(%x: $X, %w: $W) -> ($X, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5} : ($X, $W) -> ($X, $S)
      plan.yield %y, %r : $X, $S
    })");
}

TEST(Norms, RmsNormGradients) {
  checkRows(R"(
    plan.kernel @k(%g: $X, %x: $X, %w: $W, %r: $S {test.positive}) -> $X
        attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
      %y = nn.rms_norm_grad_input %g, %x, %w, %r : ($X, $X, $W, $S) -> $X
      plan.yield %y : $X
    })",
            2e-5);
  checkGradients(R"(
    plan.kernel @k(%g: $X, %x: $X, %r: $S {test.positive}, %i: $F) -> $F
        attributes {generator = #plan.generator<columns>, ties = array<i64: 3>} {
      %y = nn.rms_norm_grad_weight %g, %x, %r init %i : ($X, $X, $S, $F) -> $F
      plan.yield %y : $F
    })");
}

} // namespace
