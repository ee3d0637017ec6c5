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

/// The kernel that BINARY check compares with must be right itself.
static void checkPlain(planir::KernelOp kernel, const KernelCheck &check,
                       const char *chip, ArrayRef<Tensor> arguments,
                       ArrayRef<Tensor> expected) {
  OwningOpRef<ModuleOp> module(ModuleOp::create(kernel.getLoc()));
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  auto mapped = gpu::mapPlain(kernel, target);
  ASSERT_TRUE(succeeded(mapped)) << check.text;
  ASSERT_TRUE(*mapped) << mapped->reason << check.text;
  auto loaded = gpu::EmulatedKernel::load(*mapped, chip);
  ASSERT_TRUE(static_cast<bool>(loaded))
      << llvm::toString(loaded.takeError()) << check.text;
  OwningOpRef<planir::KernelOp> untied(kernel.clone());
  untied->setTies(SmallVector<int64_t>(expected.size(), -1));
  std::vector<Tensor> actual =
      execute(*untied, arguments, [&](const std::vector<void *> &refs) {
        EXPECT_EQ((*loaded)->run(refs, check.scalars), "") << check.text;
      });
  for (size_t i = 0; i < expected.size(); ++i)
    expectNear(actual[i], expected[i], check.tolerance,
               "plain result " + std::to_string(i) + " of\n" + check.text);
}

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
  checkPlain(kernel, *this, chip, arguments, expected);
}

} // namespace heddle::test
