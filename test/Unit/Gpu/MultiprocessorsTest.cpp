//===- MultiprocessorsTest.cpp - Bits on small and large GPUs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of binaries that serve give the same bits on GPUs with different
// numbers of multiprocessors, though the launches may differ.
//
//===----------------------------------------------------------------------===//

#include "../Kernels/PagedTexts.h"
#include "PackedTexts.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace heddle::test {
namespace {

using eval::Tensor;

/// What the kernel of `text` computes on a GPU with so many multiprocessors.
struct OnGpu {
  std::vector<Tensor> results;
  SmallVector<int32_t> grid; ///< Of the first launch.
};

OnGpu runOn(int64_t multiprocessors, const std::string &text,
            ArrayRef<Tensor> arguments, bool fixedSums = true) {
  DialectRegistry registry;
  gpu::registerGpuCodegen(registry);
  std::unique_ptr<MLIRContext> context = createKernelContext(registry);
  auto module = parseSourceString<ModuleOp>(text, context.get());
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  gpu::Chip chip = *gpu::findChip("sm_90");
  chip.multiprocessors = multiprocessors;
  chip.fixedSums = fixedSums;
  auto mapped = gpu::mapKernel(kernel, target, chip);
  EXPECT_TRUE(succeeded(mapped) && *mapped) << text;
  OnGpu found;
  found.grid =
      llvm::to_vector(*mapped->launches.front().func.getKnownGridSize());
  auto loaded = gpu::EmulatedKernel::load(*mapped, "sm_90");
  EXPECT_TRUE(static_cast<bool>(loaded));
  found.results =
      execute(kernel, arguments, [&](const std::vector<void *> &refs) {
        EXPECT_EQ((*loaded)->run(refs, {}), "");
      });
  return found;
}

std::vector<Tensor> randomFor(const std::string &text) {
  DialectRegistry registry;
  gpu::registerGpuCodegen(registry);
  std::unique_ptr<MLIRContext> context = createKernelContext(registry);
  auto module = parseSourceString<ModuleOp>(text, context.get());
  KernelCheck check{text};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  return randomArguments(*module->getOps<planir::KernelOp>().begin(), check);
}

/// The numbers of multiprocessors that are compared.
constexpr int64_t few = 46, many = 132;

bool hasSameBits(const OnGpu &a, const OnGpu &b) {
  return llvm::equal(a.results[0].floats(), b.results[0].floats());
}

TEST(GpuMultiprocessors, PackedProducts) {
  for (int64_t rows : {3, 70}) {
    std::string text = packedText({"int4", 640, 40, 4, 64, true}, rows).text;
    std::vector<Tensor> arguments = randomFor(text);
    EXPECT_TRUE(
        hasSameBits(runOn(few, text, arguments), runOn(many, text, arguments)))
        << rows << " rows";
  }
}

/// Blocks share out the parts of requests: how many blocks, depends on the GPU.
TEST(GpuMultiprocessors, PagedAttention) {
  Paged paged{std::vector<int64_t>(16, 5), 1, 8, 4, 32, "bf16", "bf16"};
  paged.contexts[3] = 2000;
  PagedKernels texts = pagedKernels(paged, PagedResult::Parts);
  std::vector<Tensor> arguments = pagedArguments(paged);
  auto run = [&](int64_t multiprocessors) {
    OnGpu parts = runOn(multiprocessors, texts.attention, arguments);
    std::vector<Tensor> rest(arguments.end() - 2, arguments.end());
    rest.insert(rest.begin(), parts.results[0]);
    parts.results = runOn(multiprocessors, texts.join, rest).results;
    return parts;
  };
  OnGpu onFew = run(few), onMany = run(many);
  EXPECT_TRUE(hasSameBits(onFew, onMany));
  EXPECT_NE(onFew.grid, onMany.grid);
}

/// Without fixed sums, the number of parts of k depends on the GPU.
TEST(GpuMultiprocessors, Products) {
  std::string x = "tensor<40x4096xbf16>", w = "tensor<4096x320xbf16>";
  std::string y = "tensor<40x320xf32>";
  std::string text =
      "plan.kernel @k(%x: " + x + ", %w: " + w + ") -> " + y +
      " attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} "
      "{\n  %y = nn.linear %x, %w : (" +
      x + ", " + w + ") -> " + y + "\n  plan.yield %y : " + y + "\n}";
  std::vector<Tensor> arguments = randomFor(text);
  for (bool fixedSums : {true, false})
    EXPECT_EQ(hasSameBits(runOn(few, text, arguments, fixedSums),
                          runOn(many, text, arguments, fixedSums)),
              fixedSums);
}

} // namespace
} // namespace heddle::test
