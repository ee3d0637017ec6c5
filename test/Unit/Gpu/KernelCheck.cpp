//===- KernelCheck.cpp - Kernel tests in the emulator of GPUs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "Chips.h"
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
  gpu::untie(*untied);
  std::vector<Tensor> actual =
      execute(*untied, arguments, [&](const std::vector<void *> &refs) {
        EXPECT_EQ((*loaded)->run(refs, check.scalars), "") << check.text;
      });
  for (size_t i = 0; i < expected.size(); ++i)
    expectNear(actual[i], expected[i], check.tolerance,
               "plain result " + std::to_string(i) + " of\n" + check.text);
}

/// Compares the kernel, mapped to a GPU, with the reference.
static void checkMapped(ModuleOp module, planir::KernelOp kernel,
                        const KernelCheck &check, const char *chip) {
  SCOPED_TRACE(chip);
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  auto mapped = gpu::mapKernel(kernel, target, *gpu::findChip(chip));
  ASSERT_TRUE(succeeded(mapped)) << check.text;
  ASSERT_TRUE(*mapped) << mapped->reason << check.text;
  ASSERT_TRUE(succeeded(module.verify())) << check.text;
  auto loaded = gpu::EmulatedKernel::load(*mapped, chip);
  ASSERT_TRUE(static_cast<bool>(loaded))
      << llvm::toString(loaded.takeError()) << check.text;
  std::vector<Tensor> arguments = randomArguments(kernel, check);
  std::vector<Tensor> expected = evaluate(kernel, arguments);
  auto runOnce = [&] {
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      EXPECT_EQ((*loaded)->run(refs, check.scalars), "") << check.text;
    });
  };
  std::vector<Tensor> actual = runOnce(), again = runOnce();
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string what = "result " + std::to_string(i) + " of\n" + check.text;
    expectNear(actual[i], expected[i], check.tolerance, what);
    expectSameBits(again[i], actual[i], what);
  }
  checkPlain(kernel, check, chip, arguments, expected);
  target.erase();
}

/// The leading dimension that lets rows begin at multiples of 16 bytes; 0 for
/// none.
static int64_t leadingDimensionFor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 2 ||
      !isa<FloatType>(tensor.getElementType()))
    return 0;
  int64_t columns = tensor.getShape().back();
  int64_t width = 16 / dist::byteSize(tensor.getElementType());
  return columns % width ? llvm::alignTo(columns, width) : 0;
}

/// Whether an operand is a packed weight: a state, whose rows have no gaps.
static bool isPackedWeight(planir::KernelOp kernel, unsigned operand) {
  if (operand >= kernel.getBody().getNumArguments())
    return false;
  Value argument = kernel.getBody().getArgument(operand);
  return llvm::any_of(argument.getUsers(), [&](Operation *user) {
    auto packed = dyn_cast<nn::PackedLinearOp>(user);
    return packed && packed.getInput() != argument;
  });
}

/// Gives rows gaps where a plan may have them: in all tensors of a shape or in
/// none. False when there are none.
static bool addGaps(planir::KernelOp kernel) {
  nn::Generator generator = kernel.getGenerator();
  if (generator != nn::Generator::Gemm && generator != nn::Generator::Rows &&
      generator != nn::Generator::Columns)
    return false;
  SmallVector<Type> types = kernel.getLaunchTypes();
  SmallVector<int64_t> leading;
  for (auto [operand, type] : llvm::enumerate(types)) {
    bool mayHaveGaps = !isPackedWeight(kernel, operand) &&
                       llvm::all_of(types, [&](Type other) {
                         auto a = dyn_cast<RankedTensorType>(type);
                         auto b = dyn_cast<RankedTensorType>(other);
                         return a && (!b || a.getShape() != b.getShape() ||
                                      leadingDimensionFor(b));
                       });
    leading.push_back(mayHaveGaps ? leadingDimensionFor(type) : 0);
  }
  if (llvm::all_of(leading, [](int64_t leading) { return leading == 0; }))
    return false;
  kernel.setLeadingDimensions(leading);
  return true;
}

/// The tests of CPU kernels, on the same kernels mapped to a GPU, and mapped
/// again with gaps between rows, which hold NaN.
void KernelCheck::run() const {
  DialectRegistry registry;
  gpu::registerGpuCodegen(registry);
  std::unique_ptr<MLIRContext> context = createKernelContext(registry);
  auto module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  std::vector<const char *> chips = chipsFor(text);
  for (const char *chip : chips)
    checkMapped(*module, kernel, *this, chip);
  if (!addGaps(kernel))
    return;
  SCOPED_TRACE("with gaps between rows");
  for (const char *chip : chips)
    checkMapped(*module, kernel, *this, chip);
}

} // namespace heddle::test
