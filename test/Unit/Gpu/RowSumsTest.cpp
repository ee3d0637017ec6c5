//===- RowSumsTest.cpp - Sums over rows beside what is made of the rows ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

using namespace heddle::test;

namespace {

/// One row and fewer rows than blocks; rows of one column, of an odd number, of
/// a part of a warp's accesses, of several accesses for each thread, with and
/// without a rest; more rows than blocks, which do not divide them; rows of
/// teams, more and fewer than these, whose last place is and is not a part.
/// Each is of types in turn, or in a long run of all.
struct Shape {
  const char *rows, *columns;
};
const Shape shapes[] = {{"1x1", "1"},    {"2x3", "7"},    {"1x5", "33"},
                        {"3x2", "96"},   {"1x3", "768"},  {"1x2", "2600"},
                        {"1x3", "2603"}, {"1x263", "24"}, {"1x1657", "13"},
                        {"1x37", "512"}, {"5x11", "1000"}};

struct Types {
  const char *values, *gradients; ///< Of parameters.
};
const Types allTypes[] = {{"f32", "f32"}, {"bf16", "f32"}, {"bf16", "bf16"}};

void check(const std::string &text, double tolerance) {
  for (auto [shapeNumber, shape] : llvm::enumerate(shapes))
    for (auto [number, types] : llvm::enumerate(allTypes)) {
      if (!isLong() && shapeNumber % std::size(allTypes) != number)
        continue;
      KernelCheck{instantiate(text, {{"X", "tensor<$Rx$Cx$T>"},
                                     {"W", "tensor<$Cx$T>"},
                                     {"S", "tensor<$Rxf32>"},
                                     {"F", "tensor<$Cx$G>"},
                                     {"G", types.gradients},
                                     {"R", shape.rows},
                                     {"C", shape.columns},
                                     {"T", types.values}}),
                  tolerance}
          .run();
    }
}

/// The gradient of the input takes the place of that of the output, the sums
/// that of what they are added to.
TEST(RowSums, LayerNorm) {
  check(R"(
    plan.kernel @k(%g: $X, %x: $X, %w: $W, %m: $S, %r: $S {test.positive}, %o: $X,
                   %wi: $F, %bi: $F) -> ($X, $F, $F)
        attributes {generator = #plan.generator<rows>, ties = array<i64: 0, 6, 7>} {
      %d = nn.layer_norm_grad_input %g, %x, %w, %m, %r
          : ($X, $X, $W, $S, $S) -> $X
      %y = nn.add %d, %o : $X
      %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %r weight_init %wi bias_init %bi
          : ($X, $X, $S, $S, $F, $F) -> ($F, $F)
      plan.yield %y, %dw, %db : $X, $F, $F
    })",
        2e-5);
}

TEST(RowSums, RmsNorm) {
  check(R"(
    plan.kernel @k(%g: $X, %x: $X, %w: $W, %r: $S {test.positive}) -> ($X, $F)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %y = nn.rms_norm_grad_input %g, %x, %w, %r : ($X, $X, $W, $S) -> $X
      %dw = nn.rms_norm_grad_weight %g, %x, %r : ($X, $X, $S) -> $F
      plan.yield %y, %dw : $X, $F
    })",
        2e-5);
}

/// Sums of what the kernel makes itself, which nobody else asks for, and no
/// reduction of a row.
TEST(RowSums, OfElements) {
  check(R"(
    plan.kernel @k(%x: $X, %g: $X, %i: $F) -> $F
        attributes {generator = #plan.generator<rows>, ties = array<i64: 2>} {
      %y = nn.mul %x, %g : $X
      %s = nn.sum_rows %y init %i : ($X, $F) -> $F
      plan.yield %s : $F
    })",
        2e-5);
}

/// Sums of one row: vectors of different lengths, each by blocks of its own,
/// with and without a rest, also of several blocks. A result takes the place of
/// what is added, or has its own.
TEST(RowSums, OfVectors) {
  for (const char *type : {"f32", "bf16"})
    KernelCheck{instantiate(R"(
    plan.kernel @k(%a: tensor<2600x$T>, %i: tensor<2600xf32>, %b: tensor<1x$T>,
                   %j: tensor<1xf32>, %c: tensor<97x$T>, %d: tensor<2600x$T>,
                   %l: tensor<97xf32>)
        -> (tensor<2600xf32>, tensor<1xf32>, tensor<97xf32>, tensor<2600xf32>)
        attributes {generator = #plan.generator<columns>,
                    ties = array<i64: 1, -1, 6, -1>} {
      %x = nn.sum_rows %a init %i : (tensor<2600x$T>, tensor<2600xf32>) -> tensor<2600xf32>
      %y = nn.sum_rows %b init %j : (tensor<1x$T>, tensor<1xf32>) -> tensor<1xf32>
      %z = nn.sum_rows %c init %l : (tensor<97x$T>, tensor<97xf32>) -> tensor<97xf32>
      %w = nn.sum_rows %d : (tensor<2600x$T>) -> tensor<2600xf32>
      plan.yield %x, %y, %z, %w
          : tensor<2600xf32>, tensor<1xf32>, tensor<97xf32>, tensor<2600xf32>
    })",
                            {{"T", type}}),
                1e-7}
        .run();
}

/// As many columns as registers hold, in two sums; and rows that have to be
/// read again.
TEST(RowSums, Long) {
  KernelCheck{R"(
    plan.kernel @k(%g: tensor<9x8192xf32>, %x: tensor<9x8192xf32>,
                   %w: tensor<8192xf32>, %m: tensor<9xf32>,
                   %r: tensor<9xf32> {test.positive})
        -> (tensor<9x8192xf32>, tensor<8192xf32>, tensor<8192xf32>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: 1, -1, -1>} {
      %d = nn.layer_norm_grad_input %g, %x, %w, %m, %r
          : (tensor<9x8192xf32>, tensor<9x8192xf32>, tensor<8192xf32>,
             tensor<9xf32>, tensor<9xf32>) -> tensor<9x8192xf32>
      %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %r
          : (tensor<9x8192xf32>, tensor<9x8192xf32>, tensor<9xf32>, tensor<9xf32>)
          -> (tensor<8192xf32>, tensor<8192xf32>)
      plan.yield %d, %dw, %db
          : tensor<9x8192xf32>, tensor<8192xf32>, tensor<8192xf32>
    })",
              2e-5}
      .run();
  KernelCheck{R"(
    plan.kernel @k(%g: tensor<9x16001xf32>, %x: tensor<9x16001xf32>,
                   %w: tensor<16001xf32>, %r: tensor<9xf32> {test.positive})
        -> (tensor<9x16001xf32>, tensor<16001xf32>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %d = nn.rms_norm_grad_input %g, %x, %w, %r
          : (tensor<9x16001xf32>, tensor<9x16001xf32>, tensor<16001xf32>,
             tensor<9xf32>) -> tensor<9x16001xf32>
      %dw = nn.rms_norm_grad_weight %g, %x, %r
          : (tensor<9x16001xf32>, tensor<9x16001xf32>, tensor<9xf32>)
          -> tensor<16001xf32>
      plan.yield %d, %dw : tensor<9x16001xf32>, tensor<16001xf32>
    })",
              2e-5}
      .run();
}

} // namespace
