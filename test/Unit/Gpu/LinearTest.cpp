//===- LinearTest.cpp - The tensor-core product in the emulator -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace heddle::test;

namespace {

// Half a unit in the last place of bf16, twice: the product and its epilogue.
constexpr double tolerance = 4e-3;

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Product {
  int64_t m, n, k;
  bool transposed;
};

void PrintTo(const Product &p, std::ostream *os) {
  *os << p.m << "x" << p.n << "x" << p.k << (p.transposed ? " oi" : " io");
}

class GpuLinear : public testing::TestWithParam<Product> {};

std::string bf16(int64_t rows, int64_t columns) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
         "xbf16>";
}

/// x w in double.
std::vector<double> multiply(const Product &p, const Buffer &x,
                             const Buffer &w) {
  std::vector<double> result(p.m * p.n);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t k = 0; k < p.k; ++k)
        result[i * p.n + j] +=
            x.at(i * p.k + k) * w.at(p.transposed ? j * p.k + k : k * p.n + j);
  return result;
}

TEST_P(GpuLinear, BiasAndGelu) {
  Product p = GetParam();
  std::string xType = bf16(p.m, p.k), yType = bf16(p.m, p.n);
  std::string wType = p.transposed ? bf16(p.n, p.k) : bf16(p.k, p.n);
  std::string bType = "tensor<" + std::to_string(p.n) + "xbf16>";
  // Both the product and the activation are results, as in training.
  std::string text =
      kernelText("gemm", "%x: " + xType + ", %w: " + wType + ", %b: " + bType,
                 yType + ", " + yType,
                 "%y = nn.linear %x, %w bias %b " +
                     std::string(p.transposed ? "{transposed} " : "") + ": (" +
                     xType + ", " + wType + ", " + bType + ") -> " + yType +
                     "\n%g = nn.map gelu_tanh(%y) : " + yType,
                 "%y, %g");
  Buffer x(p.m * p.k, true), w(p.k * p.n, true), b(p.n, true),
      y(p.m * p.n, true), g(p.m * p.n, true);
  x.fill(1);
  w.fill(2);
  b.fill(3);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &b, &y, &g}), "");
  std::vector<double> expected = multiply(p, x, w), activated;
  for (int64_t i = 0; i < p.m * p.n; ++i) {
    expected[i] += b.at(i % p.n);
    activated.push_back(gelu(expected[i]));
  }
  EXPECT_LT(relativeError(y, expected), tolerance);
  EXPECT_LT(relativeError(g, activated), tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuLinear,
    testing::Values(Product{64, 64, 64, false}, Product{64, 64, 64, true},
                    // Edges in every dimension, still in aligned vectors.
                    Product{70, 72, 40, false}, Product{70, 72, 40, true},
                    // Nothing divides: element by element.
                    Product{37, 51, 29, false}, Product{37, 51, 29, true},
                    // One operand aligned, the other not.
                    Product{65, 50, 24, false}, Product{33, 66, 30, true},
                    Product{1, 1, 1, false}, Product{1, 130, 17, true}));

/// Leading dimensions, a residual of the same shape, a result in f32.
TEST(GpuLinearEpilogue, ResidualOfThreeDimensions) {
  Product p = {6, 24, 16, false};
  std::string text = kernelText(
      "gemm",
      "%x: tensor<2x3x16xbf16>, %w: tensor<16x24xbf16>, %r: "
      "tensor<2x3x24xf32>",
      "tensor<2x3x24xf32>",
      "%y = nn.linear %x, %w : (tensor<2x3x16xbf16>, tensor<16x24xbf16>) -> "
      "tensor<2x3x24xf32>\n%s = nn.add %y, %r : tensor<2x3x24xf32>",
      "%s");
  Buffer x(p.m * p.k, true), w(p.k * p.n, true), r(p.m * p.n, false),
      s(p.m * p.n, false);
  x.fill(4);
  w.fill(5);
  r.fill(6);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &r, &s}), "");
  std::vector<double> expected = multiply(p, x, w);
  for (int64_t i = 0; i < p.m * p.n; ++i)
    expected[i] += r.at(i);
  EXPECT_LT(relativeError(s, expected), 1e-6);
}

/// Enough blocks for the larger tiling.
TEST(GpuLinearEpilogue, LargeTiles) {
  Product p = {1409, 1416, 40, false};
  std::string xType = bf16(p.m, p.k), wType = bf16(p.k, p.n),
              yType = bf16(p.m, p.n);
  std::string text = kernelText(
      "gemm", "%x: " + xType + ", %w: " + wType, yType,
      "%y = nn.linear %x, %w : (" + xType + ", " + wType + ") -> " + yType,
      "%y");
  Buffer x(p.m * p.k, true), w(p.k * p.n, true), y(p.m * p.n, true);
  x.fill(7);
  w.fill(8);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &y}), "");
  EXPECT_LT(relativeError(y, multiply(p, x, w)), tolerance);
}

} // namespace
