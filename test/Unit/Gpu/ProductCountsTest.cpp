//===- ProductCountsTest.cpp - What a product costs its warps -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One block of products of GPT-2 124M runs in the machine, which counts. What
// a longer k adds is the main loop.
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;
namespace emu = heddle::emulator;

namespace {

/// How factors are multiplied: on tensor cores, in bf16 or f16 (Narrow) or in
/// tf32; or by FMA in f32.
enum class Factors { Narrow, Tf32, F32 };

struct Shape {
  const char *name;
  int64_t m, n;
  Factors factors;
  const char *a, *b; ///< Types, with $K for k.
  const char *body;
  const char *result;
  const char *sum = ""; ///< A factor whose columns are summed, or none.
};

void PrintTo(const Shape &shape, std::ostream *os) { *os << shape.name; }

std::string withK(std::string text, int64_t k) {
  for (size_t at; (at = text.find("$K")) != std::string::npos;)
    text.replace(at, 2, std::to_string(k));
  return text;
}

/// What the first block does.
emu::Counters countBlock(const Shape &shape, int64_t k) {
  std::string a = withK(shape.a, k), b = withK(shape.b, k);
  std::string body =
      std::string(shape.body) + " : (" + a + ", " + b + ") -> " + shape.result;
  std::string results = shape.result, yielded = "%y";
  std::vector<int64_t> bytes = {shape.m * k * 4, shape.n * k * 4,
                                shape.m * shape.n * 4};
  if (*shape.sum) {
    bool ofA = std::string(shape.sum) == "%a";
    int64_t columns = ofA ? shape.m : shape.n;
    std::string type = "tensor<" + std::to_string(columns) + "xf32>";
    body += std::string("\n%s = nn.sum_rows ") + shape.sum + " : (" +
            (ofA ? a : b) + ") -> " + type;
    results += ", " + type;
    yielded += ", %s";
    bytes.push_back(columns * 4);
  }
  return countFirstBlock(
      kernelText("gemm", "%a: " + a + ", %b: " + b, results, body, yielded),
      bytes, 0, shape.factors == Factors::Tf32 ? "tf32" : "ieee");
}

/// Other instructions for one that multiplies. In tf32 each element of a factor
/// that is summed takes an addition of its own, as it was before rounding: a
/// thread has 8 for 32 products.
double mostOthers(const Shape &shape) {
  if (shape.factors == Factors::F32)
    return 0.2;
  return shape.factors == Factors::Tf32 && *shape.sum ? 1.2 + 8.0 / 32 : 1.2;
}

class GpuProductCounts : public testing::TestWithParam<Shape> {};

TEST_P(GpuProductCounts, OfOneBlock) {
  emu::Counters some = countBlock(GetParam(), 512);
  emu::Counters more = countBlock(GetParam(), 1024);
  Factors factors = GetParam().factors;
  // One is 2 x 16 x 8 x 16 operations on tensor cores, in tf32 half as many, or
  // an FMA of a warp.
  double products = (more.tensorOperations - some.tensorOperations) /
                    (factors == Factors::Narrow ? 4096.0 : 2048.0);
  if (factors == Factors::F32)
    products = 128.0 * 128 * 512 / emu::warpSize;
  EXPECT_GT(products, 0);
  double others = sumOf(more) - sumOf(some) - products;
  EXPECT_LE(others / products, mostOthers(GetParam()));
  EXPECT_LE(more.sharedWavefronts, 1.05 * more.idealWavefronts);
  // The loop reads every sector of the operands' tiles once.
  EXPECT_EQ((more.globalSectors - some.globalSectors) * 32,
            more.globalBytes - some.globalBytes);
  RecordProperty("others", std::to_string(others / products));
  RecordProperty("conflicts", std::to_string(double(more.sharedWavefronts) /
                                             more.idealWavefronts));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuProductCounts,
    testing::Values(
        Shape{"forward", 4096, 3072, Factors::Narrow, "tensor<4096x$Kxbf16>",
              "tensor<$Kx3072xbf16>", "%y = nn.linear %a, %b",
              "tensor<4096x3072xbf16>"},
        Shape{"input", 4096, 3072, Factors::Narrow, "tensor<4096x$Kxbf16>",
              "tensor<3072x$Kxbf16>", "%y = nn.linear %a, %b {transposed}",
              "tensor<4096x3072xbf16>"},
        Shape{"weight", 3072, 3072, Factors::Narrow, "tensor<$Kx3072xbf16>",
              "tensor<$Kx3072xbf16>", "%y = nn.linear_grad_weight %a, %b",
              "tensor<3072x3072xf32>"},
        Shape{"weight and bias", 3072, 3072, Factors::Narrow,
              "tensor<$Kx3072xbf16>", "tensor<$Kx3072xbf16>",
              "%y = nn.linear_grad_weight %a, %b", "tensor<3072x3072xf32>",
              "%b"},
        Shape{"transposed weight and bias", 3072, 3072, Factors::Narrow,
              "tensor<$Kx3072xbf16>", "tensor<$Kx3072xbf16>",
              "%y = nn.linear_grad_weight %b, %a {transposed}",
              "tensor<3072x3072xf32>", "%a"},
        Shape{"forward in f16", 4096, 3072, Factors::Narrow,
              "tensor<4096x$Kxf16>", "tensor<$Kx3072xf16>",
              "%y = nn.linear %a, %b", "tensor<4096x3072xf16>"},
        Shape{"input in f16", 4096, 3072, Factors::Narrow,
              "tensor<4096x$Kxf16>", "tensor<3072x$Kxf16>",
              "%y = nn.linear %a, %b {transposed}", "tensor<4096x3072xf16>"},
        Shape{"transposed weight and bias in f16", 3072, 3072, Factors::Narrow,
              "tensor<$Kx3072xf16>", "tensor<$Kx3072xf16>",
              "%y = nn.linear_grad_weight %b, %a {transposed}",
              "tensor<3072x3072xf32>", "%a"},
        Shape{"weight and bias in f32", 3072, 3072, Factors::F32,
              "tensor<$Kx3072xf32>", "tensor<$Kx3072xf32>",
              "%y = nn.linear_grad_weight %a, %b", "tensor<3072x3072xf32>",
              "%b"},
        Shape{"weight and bias in tf32", 3072, 3072, Factors::Tf32,
              "tensor<$Kx3072xf32>", "tensor<$Kx3072xf32>",
              "%y = nn.linear_grad_weight %a, %b", "tensor<3072x3072xf32>",
              "%b"},
        Shape{"forward in f32", 4096, 3072, Factors::F32, "tensor<4096x$Kxf32>",
              "tensor<$Kx3072xf32>", "%y = nn.linear %a, %b",
              "tensor<4096x3072xf32>"},
        Shape{"input in f32", 4096, 3072, Factors::F32, "tensor<4096x$Kxf32>",
              "tensor<3072x$Kxf32>", "%y = nn.linear %a, %b {transposed}",
              "tensor<4096x3072xf32>"},
        Shape{"weight in f32", 3072, 3072, Factors::F32, "tensor<$Kx3072xf32>",
              "tensor<$Kx3072xf32>", "%y = nn.linear_grad_weight %a, %b",
              "tensor<3072x3072xf32>"},
        Shape{"forward in tf32", 4096, 3072, Factors::Tf32,
              "tensor<4096x$Kxf32>", "tensor<$Kx3072xf32>",
              "%y = nn.linear %a, %b", "tensor<4096x3072xf32>"},
        Shape{"input in tf32", 4096, 3072, Factors::Tf32, "tensor<4096x$Kxf32>",
              "tensor<3072x$Kxf32>", "%y = nn.linear %a, %b {transposed}",
              "tensor<4096x3072xf32>"},
        Shape{"weight in tf32", 3072, 3072, Factors::Tf32,
              "tensor<$Kx3072xf32>", "tensor<$Kx3072xf32>",
              "%y = nn.linear_grad_weight %a, %b", "tensor<3072x3072xf32>"}));

} // namespace
