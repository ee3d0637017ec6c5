//===- PtxTest.cpp - The PTX of mapped kernels ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Threading.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sched.h>

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
    EXPECT_EQ(reports->front().resources->localBytes, 0);
  }
  auto objects = module->getOps<planir::ObjectOp>();
  EXPECT_FALSE(objects.empty());
  std::string ptx = (*objects.begin()).getData().str();
  EXPECT_THAT(ptx, HasSubstr(std::string(".target ") + chip));
  EXPECT_THAT(ptx, HasSubstr(".visible .entry k_"));
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

/// Those of a module, and those of several models, which may not share symbols.
TEST(GpuCompile, EqualKernelsAreCompiledOnce) {
  std::string first = gelu(), second = gelu();
  second.replace(second.find("@kernel"), 7, "@other");
  auto module = parseModule(first + second);
  ASSERT_TRUE(module);
  auto reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  EXPECT_EQ(reports->size(), 1u);
  EXPECT_EQ(llvm::range_size(module->getOps<planir::KernelOp>()), 1u);

  std::string models;
  for (const char *name : {"@first", "@second"})
    models += std::string("nn.model ") + name +
              " family \"gpt2\" phase \"fuse\" attributes {config = \"{}\", "
              "strategy = #dist.strategy<{target = \"sm_90\"}>, weights = {}} "
              "{\n" +
              first + "}\n";
  module = parseModule(models);
  ASSERT_TRUE(module);
  reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  EXPECT_EQ(reports->size(), 2u);
  std::vector<mlir::StringAttr> texts;
  module->walk([&](planir::ObjectOp object) {
    if (object.getSymName().ends_with("_ptx"))
      texts.push_back(object.getDataAttr());
  });
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
}

/// A directory that is gone with this object.
struct TemporaryDirectory {
  TemporaryDirectory() {
    llvm::sys::fs::createUniqueDirectory("heddle-cache", path);
  }
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(path); }
  llvm::SmallString<128> path;
};

/// The cache is by the kernel and the chip.
TEST(GpuCompile, CompiledKernelsAreKept) {
  TemporaryDirectory cache;
  auto compileFor = [&](const char *chip, std::string name) {
    std::string text = gelu() + layerNorm();
    text.replace(text.rfind("@kernel"), 7, "@norm");
    text.replace(text.find("@kernel"), 7, "@" + name);
    auto module = parseModule(text);
    auto reports = gpu::compileKernelsForGpu(*module, chip, cache.path);
    EXPECT_TRUE(succeeded(reports));
    int cached = 0;
    for (const gpu::KernelReport &report : *reports)
      cached += report.isCached;
    return cached;
  };
  EXPECT_EQ(compileFor("sm_90", "gelu"), 0);
  EXPECT_EQ(compileFor("sm_90", "other"), 2);
  EXPECT_EQ(compileFor("sm_80", "gelu"), 0);
  EXPECT_EQ(compileFor("sm_80", "gelu"), 2);
}

/// What is compiled does not depend on how many threads compile it.
TEST(GpuCompile, OneThreadMakesTheSame) {
  std::string text = gelu() + layerNorm() + linear();
  text.replace(text.rfind("@kernel"), 7, "@linear");
  text.replace(text.rfind("@kernel"), 7, "@norm");
  auto compiled = [&] {
    auto module = parseModule(text);
    EXPECT_TRUE(succeeded(gpu::compileKernelsForGpu(*module, "sm_90")));
    std::string printed;
    llvm::raw_string_ostream stream(printed);
    module->print(stream);
    return printed;
  };
  std::string onAll = compiled();
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(llvm::hardware_concurrency().compute_thread_count(), 1u);
  EXPECT_EQ(compiled(), onAll);
  sched_setaffinity(0, sizeof before, &before);
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
  EXPECT_EQ(reports->front().resources->localBytes, 0);
}

/// The binary has it beside the PTX.
TEST(GpuCompile, CubinsStandBesideThePtx) {
  auto module = parseModule(gelu());
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(gpu::compileKernelsForGpu(*module, "sm_90")));
  auto object = mlir::SymbolTable(*module).lookup<planir::ObjectOp>(
      gpu::cubinNameOf("kernel_ptx"));
  ASSERT_EQ(static_cast<bool>(object), !gpu::findPtxas().empty());
  if (!object)
    GTEST_SKIP() << "ptxas is not installed";
  std::vector<char> bytes;
  ASSERT_FALSE(llvm::decodeBase64(object.getData(), bytes));
  std::string cubin(bytes.begin(), bytes.end());
  EXPECT_EQ(cubin.substr(0, 4), "\x7f"
                                "ELF");
  EXPECT_THAT(cubin, HasSubstr("k_gelu_tanh_"));
}

/// Products take their shared memory at the launch; ptxas knows nothing of it.
TEST(GpuCompile, ResourcesHaveTheMemoryOfTheLaunch) {
  if (gpu::findPtxas().empty())
    GTEST_SKIP() << "ptxas is not installed";
  auto module = parseModule(linear());
  ASSERT_TRUE(module);
  auto reports = gpu::compileKernelsForGpu(*module, "sm_90");
  ASSERT_TRUE(succeeded(reports));
  planir::KernelOp kernel = *module->getOps<planir::KernelOp>().begin();
  auto launch = mlir::cast<planir::GridLaunchAttr>((*kernel.getLaunches())[0]);
  EXPECT_GT(launch.getShared(), 0);
  EXPECT_GE(reports->front().resources->sharedBytes, launch.getShared());
}

TEST(GpuCompile, RefusedPtxIsAnError) {
  std::string ptxas = gpu::findPtxas();
  if (ptxas.empty())
    GTEST_SKIP() << "ptxas is not installed";
  auto assembly = gpu::assemblePtx(
      ptxas, ".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n",
      "sm_90");
  ASSERT_FALSE(static_cast<bool>(assembly));
  EXPECT_THAT(llvm::toString(assembly.takeError()), HasSubstr("nonsense"));
}

} // namespace
