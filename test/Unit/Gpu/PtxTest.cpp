//===- PtxTest.cpp - The PTX of mapped kernels ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;
using testing::HasSubstr;
using testing::Not;

namespace {

class GpuPtx : public testing::TestWithParam<const char *> {};

std::string layerNorm() {
  return kernelText(
      "rows",
      "%x: tensor<4x768xbf16>, %w: tensor<768xbf16>, %b: tensor<768xbf16>",
      "tensor<4x768xbf16>, tensor<4xf32>, tensor<4xf32>",
      "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : "
      "(tensor<4x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) -> "
      "(tensor<4x768xbf16>, tensor<4xf32>, tensor<4xf32>)",
      "%y, %m, %s");
}

std::string linear() {
  return kernelText(
      "gemm",
      "%x: tensor<256x768xbf16>, %w: tensor<768x3072xbf16>, %b: "
      "tensor<3072xbf16>",
      "tensor<256x3072xbf16>",
      "%y = nn.linear %x, %w bias %b : (tensor<256x768xbf16>, "
      "tensor<768x3072xbf16>, tensor<3072xbf16>) -> tensor<256x3072xbf16>\n"
      "%g = nn.map gelu_tanh(%y) : tensor<256x3072xbf16>",
      "%g");
}

std::string gelu() {
  return kernelText("rows", "%x: tensor<256x3072xbf16>",
                    "tensor<256x3072xbf16>",
                    "%g = nn.map gelu_tanh(%x) : tensor<256x3072xbf16>", "%g");
}

/// The PTX of the only kernel of `text`; checks what every kernel must have.
std::string compile(const std::string &text, const char *chip) {
  auto module = parseModule(text);
  if (!module)
    return {};
  auto reports = gpu::compileKernelsForGpu(*module, chip);
  EXPECT_TRUE(succeeded(reports));
  if (failed(reports))
    return {};
  EXPECT_EQ(reports->front().reason, "");
  if (!gpu::findPtxas().empty()) {
    EXPECT_TRUE(reports->front().resources);
    EXPECT_EQ(reports->front().resources->spillBytes, 0);
  }
  auto objects = module->getOps<planir::ObjectOp>();
  EXPECT_FALSE(objects.empty());
  std::string ptx = (*objects.begin()).getData().str();
  EXPECT_THAT(ptx, HasSubstr(std::string(".target ") + chip));
  EXPECT_THAT(ptx, HasSubstr(".visible .entry kernel("));
  EXPECT_THAT(ptx, Not(HasSubstr(".extern .func")));
  EXPECT_THAT(ptx, Not(HasSubstr("call")));
  return ptx;
}

TEST_P(GpuPtx, LinearUsesTensorCores) {
  std::string ptx = compile(linear(), GetParam());
  EXPECT_THAT(ptx, HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.bf16"));
  EXPECT_THAT(ptx, HasSubstr("ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
  EXPECT_THAT(ptx, HasSubstr("ldmatrix.sync.aligned.m8n8.x4.trans"));
  EXPECT_THAT(ptx, HasSubstr("cp.async.cg.shared.global"));
}

TEST_P(GpuPtx, LayerNormShufflesAndLoadsVectors) {
  std::string ptx = compile(layerNorm(), GetParam());
  EXPECT_THAT(ptx, HasSubstr("shfl.sync.bfly"));
  EXPECT_THAT(ptx, HasSubstr("bar.sync"));
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4"));
}

TEST_P(GpuPtx, GeluMovesSixteenBytes) {
  std::string ptx = compile(gelu(), GetParam());
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4"));
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuPtx, testing::Values("sm_80", "sm_90"));

TEST(GpuCompile, EqualKernelsShareOneObject) {
  std::string first = gelu(), second = gelu();
  second.replace(second.find("@kernel"), 7, "@other");
  auto module = parseModule(first + second);
  ASSERT_TRUE(module);
  auto reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  EXPECT_EQ(reports->size(), 2u);
  EXPECT_EQ(llvm::range_size(module->getOps<planir::ObjectOp>()), 1u);
  for (planir::KernelOp kernel : module->getOps<planir::KernelOp>())
    EXPECT_EQ(kernel.getSymbol(), "kernel");
}

TEST(GpuCompile, UnmappedKernelsAreListed) {
  auto module = parseModule(
      "plan.kernel @kernel(%x: tensor<2x3x4xf32>, %ids: tensor<2x3xi32>) -> "
      "tensor<2x3x4xf32> attributes {generator = #plan.generator<rows>, ties = "
      "array<i64: 0>} {\n%y = nn.rotary %x at %ids {heads = 2 : i64, dims = 2 "
      ": i64, theta = 100.0 : f64} : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> "
      "tensor<2x3x4xf32>\nplan.yield %y : tensor<2x3x4xf32>\n}\n");
  ASSERT_TRUE(module);
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&gpuContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          messages += diagnostic.str() + "\n";
                                          return mlir::success();
                                        });
  auto reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  EXPECT_EQ(messages,
            "no GPU generator for a result in place of an argument of which "
            "other elements are read yet: @kernel\n"
            "code for sm_90 was made for 0 of 1 kernels; no GPU generator yet "
            "for kernel\n");
  EXPECT_NE(reports->front().reason, "");
  EXPECT_TRUE(module->getOps<planir::ObjectOp>().empty());
}

/// Of several functions, the registers and memory of that which has most: the
/// first keeps sums of 256 columns in shared memory, the second of 32.
TEST(GpuCompile, ResourcesOfTheLargestFunction) {
  if (gpu::findPtxas().empty())
    GTEST_SKIP() << "ptxas is not installed";
  std::string rows = "tensor<4096x512xbf16>", sums = "tensor<512xf32>";
  auto module = parseModule(
      kernelText("columns", "%x: " + rows, sums,
                 "%s = nn.sum_rows %x : (" + rows + ") -> " + sums, "%s"));
  ASSERT_TRUE(module);
  auto reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  EXPECT_EQ(reports->front().resources->sharedBytes, 8 * 256 * 4);
  EXPECT_EQ(reports->front().resources->spillBytes, 0);
}

TEST(GpuCompile, RefusedPtxIsAnError) {
  std::string ptxas = gpu::findPtxas();
  if (ptxas.empty())
    GTEST_SKIP() << "ptxas is not installed";
  auto resources = gpu::assemblePtx(
      ptxas, ".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n",
      "sm_90");
  ASSERT_FALSE(static_cast<bool>(resources));
  EXPECT_THAT(llvm::toString(resources.takeError()),
              HasSubstr("ptxas refuses a kernel"));
}

} // namespace
