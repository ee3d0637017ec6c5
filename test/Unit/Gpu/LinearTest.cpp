//===- LinearTest.cpp - Matrix products in the emulator -------------------===//
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

/// Half a unit in the last place, twice: the product and its epilogue.
double toleranceOf(Element type) {
  return type == Element::F32 ? 1e-6 : type == Element::BF16 ? 4e-3 : 5e-4;
}

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Product {
  int64_t m, n, k;
  bool transposed;
  Element element = Element::BF16;

  const char *type() const { return nameOf(element); }
};

void PrintTo(const Product &p, std::ostream *os) {
  *os << p.m << "x" << p.n << "x" << p.k << (p.transposed ? " oi " : " io ")
      << p.type();
}

class GpuLinear : public testing::TestWithParam<Product> {};

std::string matrix(int64_t rows, int64_t columns, const std::string &type) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
         "x" + type + ">";
}

/// x w in double.
std::vector<double> multiply(const Product &p, const Buffer &x,
                             const Buffer &w) {
  auto valuesOf = [](const Buffer &buffer) {
    std::vector<double> values(buffer.size());
    for (int64_t i = 0; i < buffer.size(); ++i)
      values[i] = buffer.at(i);
    return values;
  };
  std::vector<double> result(p.m * p.n), a = valuesOf(x), b = valuesOf(w);
  const double *left = a.data(), *right = b.data();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum +=
            left[i * p.k + k] * right[p.transposed ? j * p.k + k : k * p.n + j];
      result[i * p.n + j] = sum;
    }
  return result;
}

TEST_P(GpuLinear, BiasAndGelu) {
  Product p = GetParam();
  std::string xType = matrix(p.m, p.k, p.type());
  std::string yType = matrix(p.m, p.n, p.type());
  std::string wType =
      p.transposed ? matrix(p.n, p.k, p.type()) : matrix(p.k, p.n, p.type());
  std::string bType = "tensor<" + std::to_string(p.n) + "x" + p.type() + ">";
  // Both the product and the activation are results, as in training.
  std::string text =
      kernelText("gemm", "%x: " + xType + ", %w: " + wType + ", %b: " + bType,
                 yType + ", " + yType,
                 "%y = nn.linear %x, %w bias %b " +
                     std::string(p.transposed ? "{transposed} " : "") + ": (" +
                     xType + ", " + wType + ", " + bType + ") -> " + yType +
                     "\n%g = nn.map gelu_tanh(%y) : " + yType,
                 "%y, %g");
  Buffer x(p.m * p.k, p.element), w(p.k * p.n, p.element), b(p.n, p.element),
      y(p.m * p.n, p.element), g(p.m * p.n, p.element);
  x.fill(1);
  w.fill(2);
  b.fill(3);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &b, &y, &g}), "");
  std::vector<double> expected = multiply(p, x, w), activated;
  for (int64_t i = 0; i < p.m * p.n; ++i) {
    expected[i] += b.at(i % p.n);
    activated.push_back(gelu(expected[i]));
  }
  double most = toleranceOf(p.element);
  EXPECT_LT(relativeError(y, expected), most);
  EXPECT_LT(relativeError(g, activated), most);
}

std::vector<Product> products() {
  std::vector<Product> all = {{70, 72, 40, false, Element::F32},
                              {33, 40, 1031, false, Element::F32},
                              {37, 51, 129, false, Element::F32},
                              {66, 50, 67, true, Element::F32},
                              {1, 1, 1, true, Element::F32}};
  for (Element type : {Element::BF16, Element::F16})
    for (Product product : {Product{64, 64, 64, false},
                            {64, 64, 64, true},
                            // Edges in every dimension, in aligned vectors.
                            {70, 72, 40, false},
                            {70, 72, 40, true},
                            // More steps along k than stages.
                            {33, 40, 264, false},
                            {33, 40, 264, true},
                            // Few tiles and a long k, which is summed in parts.
                            {33, 40, 1040, false},
                            {5, 31, 1031, true},
                            // Nothing divides: element by element.
                            {37, 51, 29, false},
                            {37, 51, 29, true},
                            {67, 131, 93, false},
                            {67, 131, 93, true},
                            // One operand aligned, the other not.
                            {65, 50, 24, false},
                            {33, 66, 30, true},
                            {1, 1, 1, false},
                            {1, 130, 17, true}}) {
      product.element = type;
      all.push_back(product);
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuLinear, testing::ValuesIn(products()));

/// What is computed of a product's rows is the gradient of its weight.
TEST_P(GpuLinear, GradWeight) {
  Product p = GetParam();
  std::string xType = matrix(p.k, p.m, p.type());
  std::string gType = matrix(p.k, p.n, p.type());
  std::string sumType = matrix(p.m, p.n, "f32");
  // Both orders of the operands, which are stored along their columns.
  std::string text = kernelText(
      "gemm", "%x: " + xType + ", %g: " + gType + ", %i: " + sumType, sumType,
      "%d = nn.linear_grad_weight " +
          std::string(p.transposed ? "%g, %x" : "%x, %g") + " init %i " +
          (p.transposed ? "{transposed} " : "") + ": (" +
          (p.transposed ? gType + ", " + xType : xType + ", " + gType) + ", " +
          sumType + ") -> " + sumType,
      "%d");
  Buffer x(p.k * p.m, p.element), g(p.k * p.n, p.element),
      init(p.m * p.n, false), sum(p.m * p.n, false);
  x.fill(4);
  g.fill(5);
  init.fill(6);
  ASSERT_EQ(emulateKernel(text, {&x, &g, &init, &sum}), "");
  std::vector<double> expected(p.m * p.n);
  for (int64_t i = 0; i < p.m * p.n; ++i) {
    expected[i] = init.at(i);
    for (int64_t k = 0; k < p.k; ++k)
      expected[i] += x.at(k * p.m + i / p.n) * g.at(k * p.n + i % p.n);
  }
  EXPECT_LT(relativeError(sum, expected), 1e-6);
}

class GpuLinearEpilogue : public testing::TestWithParam<Element> {};

/// Leading dimensions, a residual of the same shape, a result in f32.
TEST_P(GpuLinearEpilogue, ResidualOfThreeDimensions) {
  Product p = {6, 24, 16, false, GetParam()};
  std::string xType = "tensor<2x3x16x" + std::string(p.type()) + ">";
  std::string wType = matrix(p.k, p.n, p.type());
  std::string text = kernelText(
      "gemm", "%x: " + xType + ", %w: " + wType + ", %r: tensor<2x3x24xf32>",
      "tensor<2x3x24xf32>",
      "%y = nn.linear %x, %w : (" + xType + ", " + wType +
          ") -> tensor<2x3x24xf32>\n%s = nn.add %y, %r : tensor<2x3x24xf32>",
      "%s");
  Buffer x(p.m * p.k, p.element), w(p.k * p.n, p.element), r(p.m * p.n, false),
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

/// A narrow type and f32 in one product: f32 it is.
TEST_P(GpuLinearEpilogue, MixedTypes) {
  Product p = {5, 70, 33, true, GetParam()};
  std::string wType = matrix(p.n, p.k, p.type());
  std::string text = kernelText(
      "gemm", "%x: tensor<5x33xf32>, %w: " + wType, "tensor<5x70xf32>",
      "%y = nn.linear %x, %w {transposed} : (tensor<5x33xf32>, " + wType +
          ") -> tensor<5x70xf32>",
      "%y");
  Buffer x(p.m * p.k, false), w(p.k * p.n, p.element), y(p.m * p.n, false);
  x.fill(7);
  w.fill(8);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &y}), "");
  EXPECT_LT(relativeError(y, multiply(p, x, w)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuLinearEpilogue,
                         testing::Values(Element::BF16, Element::F16),
                         [](const auto &info) -> std::string {
                           return nameOf(info.param);
                         });

/// Enough blocks for the larger tilings.
TEST(GpuLinearLargeTiles, AgreeWithDoubles) {
  for (Product p : {Product{1409, 1416, 40, false},
                    {1409, 1416, 40, true, Element::F16},
                    {1409, 1414, 19, true, Element::F32}}) {
    std::string xType = matrix(p.m, p.k, p.type());
    std::string wType =
        p.transposed ? matrix(p.n, p.k, p.type()) : matrix(p.k, p.n, p.type());
    std::string yType = matrix(p.m, p.n, p.type());
    std::string text =
        kernelText("gemm", "%x: " + xType + ", %w: " + wType, yType,
                   std::string("%y = nn.linear %x, %w ") +
                       (p.transposed ? "{transposed} " : "") + ": (" + xType +
                       ", " + wType + ") -> " + yType,
                   "%y");
    Buffer x(p.m * p.k, p.element), w(p.k * p.n, p.element),
        y(p.m * p.n, p.element);
    x.fill(7);
    w.fill(8);
    ASSERT_EQ(emulateKernel(text, {&x, &w, &y}), "");
    EXPECT_LT(relativeError(y, multiply(p, x, w)), toleranceOf(p.element));
  }
}

} // namespace
