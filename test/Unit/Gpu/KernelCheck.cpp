//===- KernelCheck.cpp - Kernel tests in the emulator of GPUs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace heddle::test {

using eval::Tensor;

/// The tests of CPU kernels, on the same kernels mapped to a GPU.
void KernelCheck::run() const {
  constexpr const char *chip = "sm_80";
  DialectRegistry registry;
  gpu::registerGpuCodegen(registry);
  std::unique_ptr<MLIRContext> context = createKernelContext(registry);
  auto module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  auto mapped = gpu::mapKernel(kernel, target, *gpu::findChip(chip));
  ASSERT_TRUE(succeeded(mapped)) << text;
  ASSERT_TRUE(*mapped) << mapped->reason << text;
  ASSERT_TRUE(succeeded(module->verify())) << text;
  auto loaded = gpu::EmulatedKernel::load(*mapped, chip);
  ASSERT_TRUE(static_cast<bool>(loaded))
      << llvm::toString(loaded.takeError()) << text;
  std::vector<Tensor> arguments = randomArguments(kernel, *this);
  std::vector<Tensor> expected = evaluate(kernel, arguments);
  auto runOnce = [&] {
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      EXPECT_EQ((*loaded)->run(refs, scalars), "") << text;
    });
  };
  std::vector<Tensor> actual = runOnce(), again = runOnce();
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string what = "result " + std::to_string(i) + " of\n" + text;
    expectNear(actual[i], expected[i], tolerance, what);
    expectSameBits(again[i], actual[i], what);
  }
}

} // namespace heddle::test
