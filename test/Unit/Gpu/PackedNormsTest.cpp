//===- PackedNormsTest.cpp - Products whose kernels compute a norm --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "Chips.h"
#include "PackedTexts.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

/// Runs kernels on an emulated GPU.
class Runner {
public:
  explicit Runner(const std::string &chip)
      : chip(*heddle::gpu::findChip(chip)) {
    DialectRegistry registry;
    heddle::gpu::registerGpuCodegen(registry);
    context = createKernelContext(registry);
  }

  /// The kernel of `text`, which is alive as long as this object.
  planir::KernelOp parse(const std::string &text) {
    modules.push_back(parseSourceString<ModuleOp>(text, context.get()));
    return *modules.back()->getOps<planir::KernelOp>().begin();
  }
  eval::Tensor run(planir::KernelOp kernel,
                   const std::vector<eval::Tensor> &arguments) {
    auto module = kernel->getParentOfType<ModuleOp>();
    auto builder = OpBuilder::atBlockEnd(module.getBody());
    auto target =
        builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
    auto mapped = heddle::gpu::mapKernel(kernel, target, chip);
    EXPECT_TRUE(succeeded(mapped) && *mapped) << mapped->reason;
    EXPECT_EQ(mapped->launches.size(), 1U);
    auto loaded = heddle::gpu::EmulatedKernel::load(*mapped, chip.name);
    EXPECT_TRUE(static_cast<bool>(loaded));
    return execute(kernel, arguments,
                   [&](const std::vector<void *> &refs) {
                     EXPECT_EQ((*loaded)->run(refs, {}), "");
                   })
        .front();
  }

  heddle::gpu::Chip chip;

private:
  std::unique_ptr<MLIRContext> context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};

/// The product of `rows` rows that its kernel computes has the bits of the
/// product of rows that a norm's own kernel has computed, among more rows.
void checkBits(PackedForm form, int64_t rows, const std::string &chip,
               int64_t multiprocessors = 0) {
  SCOPED_TRACE(form.norm + " " + form.type + " " + std::to_string(form.in) +
               " " + std::to_string(rows) + " " + chip);
  Runner runner(chip);
  if (multiprocessors > 0)
    runner.chip.multiprocessors = multiprocessors;
  planir::KernelOp fused = runner.parse(packedText(form, rows).text);
  KernelCheck check{"", 0};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  std::vector<eval::Tensor> arguments = randomArguments(fused, check);
  eval::Tensor found = runner.run(fused, arguments);

  constexpr int64_t allRows = 70;
  size_t operands = form.norm == "layer_norm" ? 2 : 1;
  planir::KernelOp norm = runner.parse(normText(form, allRows));
  std::vector<eval::Tensor> ofNorm = randomArguments(norm, check);
  ofNorm[0].copyFrom(arguments[0], 0, 0, rows * form.in);
  std::copy(arguments.end() - operands, arguments.end(), ofNorm.begin() + 1);
  eval::Tensor normed = runner.run(norm, ofNorm);
  form.norm = "";
  planir::KernelOp product = runner.parse(packedText(form, rows).text);
  std::vector<eval::Tensor> ofProduct(arguments.begin(),
                                      arguments.end() - operands);
  ofProduct[0].copyFrom(normed, 0, 0, rows * form.in);
  eval::Tensor expected = runner.run(product, ofProduct);
  for (int64_t i = 0; i < rows * form.out; ++i)
    ASSERT_EQ(found.floats()[i], expected.floats()[i]) << "element " << i;
}

PackedForm formOf(int64_t in, int64_t out, int64_t bits, int64_t group,
                  const std::string &norm, const std::string &type,
                  bool hasZeros = false) {
  return {"", in, out, bits, group, hasZeros, norm, type};
}

/// Rows of one warp, of three and of seven in a block of eight, of eight, and
/// of more than the block has.
TEST(GpuPackedNorms, BitsAreThoseOfANormAlone) {
  for (int64_t rows : {1, 3, 8, 12}) {
    checkBits(formOf(64, 20, 16, 0, "rms_norm", "bf16"), rows, "sm_90");
    checkBits(formOf(768, 33, 16, 0, "layer_norm", "f16"), rows, "sm_80");
    checkBits(formOf(1600, 16, 8, 0, "layer_norm", "bf16"), rows, "sm_90");
  }
  for (int64_t rows : {1, 5}) {
    checkBits(formOf(2048, 40, 4, 64, "rms_norm", "bf16"), rows, "sm_90");
    checkBits(formOf(600, 20, 32, 0, "rms_norm", "f32"), rows, "sm_90");
    checkBits(formOf(72, 20, 8, 0, "layer_norm", "f32"), rows, "sm_80");
  }
  // The norm of its own divides a row among 16 warps.
  checkBits(formOf(11264, 16, 4, 0, "layer_norm", "f32"), 1, "sm_80");
  // Warps have panels of their own.
  checkBits(formOf(1024, 70, 8, 128, "rms_norm", "f16", /*hasZeros=*/true), 8,
            "sm_90", /*multiprocessors=*/1);
  checkBits(formOf(1024, 70, 16, 0, "layer_norm", "bf16"), 20, "sm_80",
            /*multiprocessors=*/1);
}

void check(const PackedForm &form, int64_t rows) {
  KernelCheck check{packedText(form, rows).text, 5e-6};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  check.run();
}

TEST(GpuPackedNorms, AreAsTheReferenceIs) {
  check(formOf(64, 20, 16, 0, "rms_norm", "bf16"), 3);
  check(formOf(192, 33, 8, 64, "layer_norm", "f16", /*hasZeros=*/true), 8);
  check(formOf(40, 20, 32, 0, "layer_norm", "f32"), 2);
}

} // namespace
