//===- RowsTest.cpp - Element-wise and row kernels in the emulator --------===//
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

constexpr double f32Tolerance = 2e-6;

/// The rounding of one operation, and what a few of them add up to.
double tolerance(Element type) {
  return type == Element::F32    ? f32Tolerance
         : type == Element::BF16 ? 4e-3
                                 : 5e-4;
}

std::string tensor(const std::string &shape, Element type) {
  return "tensor<" + shape + "x" + nameOf(type) + ">";
}

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Whole vectors, vectors with a rest, fewer elements than one vector, more
/// than one block.
struct Elements {
  std::string shape;
  int64_t count;
};
const Elements elementCases[] = {
    {"4x64", 256}, {"3x7x5", 105}, {"3", 3}, {"37x131", 4847}};

TEST(GpuElementwise, AddThenGelu) {
  for (const Elements &elements : elementCases)
    for (Element element : allElements) {
      SCOPED_TRACE(tensor(elements.shape, element));
      std::string type = tensor(elements.shape, element);
      Buffer a(elements.count, element), b(elements.count, element),
          out(elements.count, element);
      a.fill(1);
      b.fill(2);
      std::string text =
          kernelText("rows", "%a: " + type + ", %b: " + type, type,
                     "%s = nn.add %a, %b : " + type +
                         "\n%g = nn.map gelu_tanh(%s) : " + type,
                     "%g");
      ASSERT_EQ(emulateKernel(text, {&a, &b, &out}), "");
      std::vector<double> expected;
      for (int64_t i = 0; i < elements.count; ++i)
        expected.push_back(gelu(a.at(i) + b.at(i)));
      EXPECT_LT(relativeError(out, expected), tolerance(element));
    }
}

TEST(GpuElementwise, ErfGelu) {
  std::string type = "tensor<5x24xf32>";
  Buffer x(120, false), out(120, false);
  x.fill(3);
  std::string text = kernelText("rows", "%x: " + type, type,
                                "%g = nn.map gelu(%x) : " + type, "%g");
  ASSERT_EQ(emulateKernel(text, {&x, &out}), "");
  std::vector<double> expected;
  for (int64_t i = 0; i < 120; ++i)
    expected.push_back(0.5 * x.at(i) * (1 + std::erf(x.at(i) / M_SQRT2)));
  EXPECT_LT(relativeError(out, expected), f32Tolerance);
}

TEST(GpuElementwise, MapOfAScalar) {
  std::string type = "tensor<5x24xf32>";
  Buffer x(120, false), s(1, false), out(120, false);
  x.fill(3);
  s.fill(4);
  std::string text = kernelText(
      "rows", "%x: " + type + ", %s: tensor<f32>", type,
      "%g = nn.map (%a = %x, %b = %s) : (" + type + ", tensor<f32>) -> " +
          type +
          " {\n%0 = nn.logistic %a : f64\n%1 = arith.mulf %0, %b : f64\n"
          "%2 = math.absf %1 : f64\nnn.return %2 : f64\n}",
      "%g");
  ASSERT_EQ(emulateKernel(text, {&x, &s, &out}), "");
  std::vector<double> expected;
  for (int64_t i = 0; i < 120; ++i)
    expected.push_back(std::fabs(s.at(0) / (1 + std::exp(-x.at(i)))));
  EXPECT_LT(relativeError(out, expected), f32Tolerance);
}

TEST(GpuElementwise, TiedResultTakesThePlaceOfItsArgument) {
  std::string text =
      "plan.kernel @kernel(%a: tensor<100xf32>, %b: tensor<100xf32>) -> "
      "(tensor<100xf32>) attributes {generator = #plan.generator<rows>, ties = "
      "array<i64: "
      "0>} {\n%s = nn.add %a, %b : tensor<100xf32>\nplan.yield %s : "
      "tensor<100xf32>\n}\n";
  Buffer a(100, false), b(100, false);
  a.fill(4);
  b.fill(5);
  std::vector<double> expected;
  for (int64_t i = 0; i < 100; ++i)
    expected.push_back(a.at(i) + b.at(i));
  ASSERT_EQ(emulateKernel(text, {&a, &b}), "");
  EXPECT_LT(relativeError(a, expected), f32Tolerance);
}

/// The same bits as on any other target: Philox of the seed and the position.
TEST(GpuElementwise, DropoutKeepsAboutItsShareAndScales) {
  std::string type = "tensor<2x64x48xf32>";
  std::string text = kernelText(
      "rows",
      "%x: " + type + ", %rng: tensor<4xi32>, %layer: index, %mb: index", type,
      "%d = nn.dropout %x rng %rng layer %layer micro_batch %mb "
      "{p = 2.500000e-01 : f64, site = 7 : i32} : (" +
          type + ", tensor<4xi32>, index, index) -> " + type,
      "%d");
  constexpr int64_t count = 2 * 64 * 48;
  Buffer x(count, false), rng(4, false), out(count, false);
  x.fill(6);
  rng.fill(7);
  ASSERT_EQ(emulateKernel(text, {&x, &rng, &out}, {3, 1}), "");
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (out.at(i) == 0)
      continue;
    ++kept;
    EXPECT_NEAR(out.at(i), x.at(i) / 0.75, 1e-6);
  }
  // Five standard deviations.
  EXPECT_NEAR(static_cast<double>(kept) / count, 0.75, 0.028);
}

struct Rows {
  int64_t rows, columns;
};
/// One warp and several; chunks of eight, four, two and one; one row; more
/// rows than blocks in flight need not be tested apart: the loop is the same.
const Rows rowCases[] = {{4, 64}, {3, 50}, {5, 33}, {1, 768}, {2, 1601}};

TEST(GpuRows, LayerNorm) {
  constexpr double eps = 1e-5;
  for (const Rows &shape : rowCases)
    for (Element element : allElements) {
      int64_t rows = shape.rows, columns = shape.columns;
      std::string c = std::to_string(columns), r = std::to_string(rows);
      SCOPED_TRACE(r + " rows of " + c + " " + nameOf(element));
      std::string type = tensor("1x" + r + "x" + c, element);
      std::string vector = tensor(c, element);
      std::string row = "tensor<1x" + r + "xf32>";
      std::string types = type + ", " + row + ", " + row;
      std::string text = kernelText(
          "rows", "%x: " + type + ", %w: " + vector + ", %b: " + vector, types,
          "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (" +
              type + ", " + vector + ", " + vector + ") -> (" + types + ")",
          "%y, %m, %s");
      Buffer x(rows * columns, element), w(columns, element),
          b(columns, element), y(rows * columns, element), mean(rows, false),
          rstd(rows, false);
      x.fill(8);
      w.fill(9);
      b.fill(10);
      ASSERT_EQ(emulateKernel(text, {&x, &w, &b, &y, &mean, &rstd}), "");
      std::vector<double> expectedY, expectedMean, expectedRstd;
      for (int64_t i = 0; i < rows; ++i) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < columns; ++j)
          sum += x.at(i * columns + j);
        double m = sum / columns;
        for (int64_t j = 0; j < columns; ++j)
          squares += std::pow(x.at(i * columns + j) - m, 2);
        double s = 1 / std::sqrt(squares / columns + eps);
        expectedMean.push_back(m);
        expectedRstd.push_back(s);
        for (int64_t j = 0; j < columns; ++j)
          expectedY.push_back((x.at(i * columns + j) - m) * s * w.at(j) +
                              b.at(j));
      }
      EXPECT_LT(relativeError(y, expectedY), tolerance(element));
      EXPECT_LT(relativeError(mean, expectedMean), 1e-5);
      EXPECT_LT(relativeError(rstd, expectedRstd), 1e-5);
    }
}

/// More rows than blocks: the grid-stride loop uses its memory again.
TEST(GpuRows, MoreRowsThanBlocks) {
  constexpr int64_t rows = 4099, columns = 264;
  std::string type = "tensor<4099x264xbf16>", vector = "tensor<264xbf16>";
  std::string types = type + ", tensor<4099xf32>, tensor<4099xf32>";
  std::string text = kernelText(
      "rows", "%x: " + type + ", %w: " + vector + ", %b: " + vector, types,
      "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (" + type +
          ", " + vector + ", " + vector + ") -> (" + types + ")",
      "%y, %m, %s");
  Buffer x(rows * columns, true), w(columns, true), b(columns, true),
      y(rows * columns, true), mean(rows, false), rstd(rows, false);
  x.fill(11);
  w.fill(12);
  b.fill(13);
  ASSERT_EQ(emulateKernel(text, {&x, &w, &b, &y, &mean, &rstd}), "");
  std::vector<double> expected;
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += x.at(i * columns + j);
    expected.push_back(sum / columns);
  }
  EXPECT_LT(relativeError(mean, expected), 1e-5);
}

} // namespace
