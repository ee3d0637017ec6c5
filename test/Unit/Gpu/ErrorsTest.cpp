//===- ErrorsTest.cpp - Errors of GPU kernels beside those of x86 ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "AttentionTexts.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;
using eval::Tensor;

namespace {

void compareErrors(const char *text, const std::string &type) {
  KernelCheck check{instantiate(text, {{"X", "tensor<2x37x$Ix$T>"},
                                       {"Y", "tensor<2x37x$Ox$T>"},
                                       {"W", "tensor<$Ix$Ox$T>"},
                                       {"V", "tensor<$Ox$Ix$T>"},
                                       {"B", "tensor<$Ox$T>"},
                                       {"F", "tensor<$Ix$Oxf32>"},
                                       {"I", "536"},
                                       {"O", "72"},
                                       {"T", type}})};
  check.scalars = {2, 1};
  compareErrors(check);
}

/// With factors that are rounded to tf32. Each errs by 2^-11 of itself at most
/// and by 2^-12.6 on average, and so does a sum of products of random signs, up
/// to the square root of two: far more than in f32, and no more than that.
TEST(GpuTf32, Products) {
  for (bool isTransposed : {false, true})
    for (auto [m, n, k] : {std::tuple(74, 72, 536), std::tuple(133, 131, 67),
                           std::tuple(5, 257, 1030)}) {
      std::string text =
          "plan.kernel @k(%x: tensor<$Mx$Kxf32>, %w: tensor<" +
          std::string(isTransposed ? "$Nx$K" : "$Kx$N") +
          "xf32>) -> tensor<$Mx$Nxf32>\n"
          "    attributes {generator = #plan.generator<gemm>, ties = "
          "array<i64: -1>} {\n"
          "  %y = nn.linear %x, %w" +
          (isTransposed ? " {transposed}" : "") +
          " : (tensor<$Mx$Kxf32>, tensor<" +
          (isTransposed ? "$Nx$K" : "$Kx$N") +
          "xf32>) -> tensor<$Mx$Nxf32>\n"
          "  plan.yield %y : tensor<$Mx$Nxf32>\n}";
      KernelCheck check{instantiate(text, {{"M", std::to_string(m)},
                                           {"N", std::to_string(n)},
                                           {"K", std::to_string(k)}})};
      Executions executions(check);
      std::vector<Tensor> expected = executions.reference();
      double error = errorOf(executions.onGpu("sm_80", config::Matmul::Tf32)[0],
                             expected[0]);
      EXPECT_LE(error, 0x1p-11) << m << " " << n << " " << k;
      EXPECT_GE(error, 0x1p-14) << m << " " << n << " " << k;
    }
}

/// A factor is summed as it was before rounding; in one part of k, and in
/// several, of rows of any length.
TEST(GpuTf32, SumsOfFactors) {
  for (auto [k, m, n] : {std::tuple(67, 20, 131), std::tuple(1061, 129, 36),
                         std::tuple(2048, 64, 130)}) {
    KernelCheck check{instantiate(R"(
      plan.kernel @k(%x: tensor<$Kx$Mxf32>, %g: tensor<$Kx$Nxf32>)
          -> (tensor<$Mx$Nxf32>, tensor<$Nxf32>)
          attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
        %w = nn.linear_grad_weight %x, %g
            : (tensor<$Kx$Mxf32>, tensor<$Kx$Nxf32>) -> tensor<$Mx$Nxf32>
        %s = nn.sum_rows %g : (tensor<$Kx$Nxf32>) -> tensor<$Nxf32>
        plan.yield %w, %s : tensor<$Mx$Nxf32>, tensor<$Nxf32>
      })",
                                  {{"K", std::to_string(k)},
                                   {"M", std::to_string(m)},
                                   {"N", std::to_string(n)}})};
    Executions executions(check);
    std::vector<Tensor> exact = executions.reference();
    std::vector<Tensor> gpu = executions.onGpu("sm_90", config::Matmul::Tf32);
    EXPECT_LE(errorOf(gpu[0], exact[0]), 0x1p-11) << k << " " << m << " " << n;
    EXPECT_LE(errorOf(gpu[1], exact[1]), 0x1p-22) << k << " " << m << " " << n;
  }
}

class GpuErrors : public testing::TestWithParam<const char *> {};

TEST_P(GpuErrors, Products) {
  compareErrors(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $B) -> ($Y, $Y)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      %f = nn.linear %x, %w bias %b : ($X, $W, $B) -> $Y
      %g = nn.map gelu_tanh(%f) : $Y
      plan.yield %g, %f : $Y, $Y
    })",
                GetParam());
  compareErrors(R"(
    plan.kernel @k(%x: $X, %w: $V, %f: $Y) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
      %d = nn.linear %x, %w {transposed} : ($X, $V) -> $Y
      %g = nn.map gelu_tanh_grad(%d, %f) : $Y
      plan.yield %g : $Y
    })",
                GetParam());
  compareErrors(R"(
    plan.kernel @k(%x: $X, %w: $W, %b: $B, %r: $Y, %rng: tensor<4xi32>,
                   %layer: index, %micro: index) -> $Y
        attributes {generator = #plan.generator<gemm>, ties = array<i64: 3>} {
      %f = nn.linear %x, %w bias %b : ($X, $W, $B) -> $Y
      %d = nn.dropout %f rng %rng layer %layer micro_batch %micro
          {p = 0.5, site = 9 : i32} : ($Y, tensor<4xi32>, index, index) -> $Y
      %s = nn.add %d, %r : $Y
      plan.yield %s : $Y
    })",
                GetParam());
  compareErrors(R"(
    plan.kernel @k(%x: $X, %g: $Y, %i: $F) -> $F
        attributes {generator = #plan.generator<gemm>, ties = array<i64: 2>} {
      %d = nn.linear_grad_weight %x, %g init %i : ($X, $Y, $F) -> $F
      plan.yield %d : $F
    })",
                GetParam());
}

/// The gradients of a weight and its bias are one kernel on a GPU, and two on a
/// CPU.
TEST_P(GpuErrors, ProductsWithSums) {
  auto checkOf = [&](const std::string &results, const std::string &generator,
                     const std::string &yielded) {
    std::string ties = yielded.size() > 2 ? "-1, -1" : "-1";
    std::string body;
    if (yielded != "%s")
      body +=
          "%d = nn.linear_grad_weight %x, %g init %i : ($X, $Y, $F) -> $F\n";
    if (yielded != "%d")
      body += "%s = nn.sum_rows %g init %j : ($Y, $B) -> $B\n";
    return KernelCheck{instantiate(
        "plan.kernel @k(%x: $X, %g: $Y, %i: $F, %j: $B) -> (" + results +
            ")\n    attributes {generator = #plan.generator<" + generator +
            ">, ties = array<i64: " + ties + ">} {\n" + body + "plan.yield " +
            yielded + " : " + results + "\n}",
        {{"X", "tensor<2x537x36x$T>"},
         {"Y", "tensor<2x537x72x$T>"},
         {"F", "tensor<36x72xf32>"},
         {"B", "tensor<72xf32>"},
         {"T", GetParam()}})};
  };
  KernelCheck weight = checkOf("$F", "gemm", "%d"),
              bias = checkOf("$B", "columns", "%s");
  compareErrors(checkOf("$F, $B", "gemm", "%d, %s"), 4, &weight);
  compareErrors(checkOf("$B, $F", "gemm", "%s, %d"), 4, &bias);
}

TEST_P(GpuErrors, Attention) {
  for (double p : {0.0, 0.25})
    for (bool isGradient : {false, true})
      compareErrors(attentionCheck(
          {72, 4, 2, 64, GetParam(), /*causal=*/p == 0, p}, isGradient, 0));
}

/// With lengths of sequences, windows and soft caps; where tests may take long
/// each alone, and all together.
TEST_P(GpuErrors, AttentionForms) {
  std::vector<int> forms = {1, 6};
  if (isLong())
    forms = {1, 2, 4, 7};
  for (int kinds : forms)
    for (bool isGradient : {false, true}) {
      AttentionForm form = {37, 2, 1, 40, GetParam(), /*causal=*/kinds != 1};
      form.hasLengths = kinds & 1;
      form.window = kinds & 2 ? 17 : 0;
      form.softcap = kinds & 4 ? 3 : 0;
      form.packed = kinds == 7;
      SCOPED_TRACE(kinds);
      compareErrors(attentionCheck(form, isGradient, 0));
    }
}

/// Of few tokens, whose results have few roundings: either side may be lucky in
/// one, so that there have to be none to spare. A quarter of all combinations
/// has any two sizes together.
/// So few tokens that the gradients of one head come of a handful of weights:
/// eight heads tell how far each side errs, not which of them is lucky.
TEST(GpuErrorsOfMany, AttentionGradOfFewTokens) {
  constexpr int64_t seqs[] = {2, 3, 5, 7}, headDims[] = {8, 33, 64, 128};
  for (int seq = 0; seq < 4; ++seq)
    for (int headDim = 0; headDim < 4; ++headDim)
      for (int heads = 0; heads < 2; ++heads)
        for (int isCausal = 0; isCausal < 2; ++isCausal)
          if (isLong() || (heads == (seq + headDim) % 2 &&
                           isCausal == (seq / 2 + headDim) % 2))
            compareErrors(
                attentionCheck({seqs[seq], 8 + 16 * heads, /*kvHeads=*/8,
                                headDims[headDim], "f32", isCausal == 1},
                               /*isGradient=*/true, 0));
}

/// Of tokens and features so few that a gradient has a handful of numbers: many
/// heads together tell how far each side errs, not which of them is lucky.
TEST(GpuErrorsOfMany, AttentionGradOfTinyHeads) {
  for (auto [seq, headDim] :
       {std::pair(2, 4), std::pair(2, 16), std::pair(3, 1), std::pair(4, 8)})
    for (bool isCausal : {false, true})
      compareErrors(attentionCheck(
          {seq, /*heads=*/64, /*kvHeads=*/64, headDim, "f32", isCausal},
          /*isGradient=*/true, 0));
}

INSTANTIATE_TEST_SUITE_P(Types, GpuErrors,
                         testing::Values("f32", "bf16", "f16"));

} // namespace
