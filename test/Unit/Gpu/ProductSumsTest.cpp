//===- ProductSumsTest.cpp - Gradients of weight and bias in one kernel ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "gtest/gtest.h"

using namespace heddle::test;

namespace {

struct Case {
  const char *name;
  const char *rows, *in, *out; ///< Sizes of x [rows, in] and g [rows, out].
  const char *types;           ///< Of the factors, the results: "bf16 f32".
};

void PrintTo(const Case &one, std::ostream *os) { *os << one.name; }

class GpuProductSums : public testing::TestWithParam<Case> {
protected:
  /// Checks the kernel whose body is `body`.
  void check(const std::string &text) {
    Case one = GetParam();
    std::string types = one.types;
    size_t space = types.find(' ');
    std::string results = types.substr(space + 1);
    KernelCheck check{instantiate(text, {{"X", "tensor<$Rx$Ix$T>"},
                                         {"Y", "tensor<$Rx$Ox$T>"},
                                         {"W", "tensor<$Ix$Ox$D>"},
                                         {"V", "tensor<$Ox$Ix$D>"},
                                         {"B", "tensor<$Ox$D>"},
                                         {"R", one.rows},
                                         {"I", one.in},
                                         {"O", one.out},
                                         {"T", types.substr(0, space)},
                                         {"D", results}}),
                      results == "bf16"  ? 4e-3
                      : results == "f16" ? 5e-4
                                         : 5e-6};
    check.run();
  }
};

TEST_P(GpuProductSums, OfTheRightFactor) {
  check(R"(
    plan.kernel @k(%x: $X, %g: $Y) -> ($W, $B)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %w = nn.linear_grad_weight %x, %g : ($X, $Y) -> $W
      %b = nn.sum_rows %g : ($Y) -> $B
      plan.yield %w, %b : $W, $B
    })");
}

/// The weight is stored [out, in]; the sum comes first.
TEST_P(GpuProductSums, OfTheLeftFactor) {
  check(R"(
    plan.kernel @k(%x: $X, %g: $Y) -> ($B, $V)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %w = nn.linear_grad_weight %x, %g {transposed} : ($X, $Y) -> $V
      %b = nn.sum_rows %g : ($Y) -> $B
      plan.yield %b, %w : $B, $V
    })");
}

/// Of a further micro-batch: onto what stands there.
TEST_P(GpuProductSums, OntoWhatIsThere) {
  check(R"(
    plan.kernel @k(%x: $X, %g: $Y, %i: $W, %j: $B) -> ($W, $B)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: 2, 3>} {
      %w = nn.linear_grad_weight %x, %g init %i : ($X, $Y, $W) -> $W
      %b = nn.sum_rows %g init %j : ($Y, $B) -> $B
      plan.yield %w, %b : $W, $B
    })");
}

/// Two biases of one product; only the sums' init is of another kernel.
TEST_P(GpuProductSums, Several) {
  check(R"(
    plan.kernel @k(%x: $X, %g: $Y, %j: $B) -> ($B, $W, $B)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: 2, -1, -1>} {
      %w = nn.linear_grad_weight %x, %g : ($X, $Y) -> $W
      %b = nn.sum_rows %g init %j : ($Y, $B) -> $B
      %c = nn.sum_rows %g : ($Y) -> $B
      plan.yield %b, %w, %c : $B, $W, $B
    })");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuProductSums,
    testing::Values(Case{"aligned", "4x16", "64", "64", "bf16 f32"},
                    Case{"one", "1", "1", "1", "bf16 f32"},
                    Case{"one of f32", "1", "1", "1", "f32 f32"},
                    Case{"one row", "1", "24", "130", "bf16 f32"},
                    Case{"one column", "2x37", "131", "1", "bf16 f32"},
                    Case{"nothing divides", "7x13", "67", "131", "bf16 f32"},
                    Case{"nothing divides in f32", "7x13", "67", "131",
                         "f32 f32"},
                    Case{"results in bf16", "5x31", "72", "101", "bf16 bf16"},
                    Case{"parts of k", "2x520", "40", "72", "bf16 f32"},
                    Case{"odd parts of k", "1031", "33", "197", "bf16 bf16"},
                    Case{"fp16", "7x13", "67", "131", "f16 f32"},
                    Case{"results in fp16", "1031", "72", "101", "f16 f16"},
                    Case{"parts of k in f32", "1031", "70", "67", "f32 f32"}),
    [](const auto &info) {
      std::string name = info.param.name;
      for (char &letter : name)
        letter = letter == ' ' ? '_' : letter;
      return name;
    });

/// Enough of both factors for the larger tilings, on which every block of an
/// edge has its share.
TEST(GpuProductSumsOfLargeTiles, AgreeWithTheReference) {
  for (const char *type : {"bf16", "f16", "f32"})
    for (bool isTransposed : {false, true}) {
      if (!isLong() && isTransposed != (type == std::string("f32")))
        continue;
      KernelCheck{instantiate(R"(
    plan.kernel @k(%x: $X, %g: $Y) -> ($W, tensor<897xf32>)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %w = nn.linear_grad_weight %x, %g $A : ($X, $Y) -> $W
      %b = nn.sum_rows %g : ($Y) -> tensor<897xf32>
      plan.yield %w, %b : $W, tensor<897xf32>
    })",
                              {{"X", "tensor<24x1409x$T>"},
                               {"Y", "tensor<24x897x$T>"},
                               {"W", isTransposed ? "tensor<897x1409xf32>"
                                                  : "tensor<1409x897xf32>"},
                               {"A", isTransposed ? "{transposed}" : ""},
                               {"T", type}}),
                  5e-6}
          .run();
    }
}

} // namespace
