//===- Errors.cpp - Errors of GPU kernels beside those of x86 -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "../Kernels/KernelHarness.h"
#include "Chips.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>

namespace heddle::test {

using eval::Tensor;

Executions::Executions(const KernelCheck &check) : check(check) {
  mlir::DialectRegistry registry;
  cpu::registerKernelCompiler(registry);
  gpu::registerGpuCodegen(registry);
  context = createKernelContext(registry);
  module = mlir::parseSourceString<mlir::ModuleOp>(check.text, context.get());
  kernel = *module->getOps<planir::KernelOp>().begin();
  arguments = randomArguments(kernel, check);
}

std::vector<Tensor> Executions::reference() {
  return evaluate(kernel, arguments, /*isRounded=*/false);
}

std::vector<Tensor> Executions::onCpu() {
  LoadedKernel loaded(kernel, *cpu::CpuTarget::parse("native"));
  return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
    loaded.run(refs, check.scalars, 1);
  });
}

std::vector<Tensor> Executions::onGpu(const char *name, config::Matmul matmul) {
  gpu::Chip chip = *gpu::findChip(name);
  chip.matmul = matmul;
  mlir::OwningOpRef<mlir::ModuleOp> alone(
      mlir::ModuleOp::create(kernel.getLoc()));
  auto builder = mlir::OpBuilder::atBlockEnd(alone->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  auto mapped = gpu::mapKernel(kernel, target, chip);
  EXPECT_TRUE(succeeded(mapped) && *mapped) << check.text;
  auto loaded = gpu::EmulatedKernel::load(*mapped, chip.name);
  EXPECT_TRUE(static_cast<bool>(loaded)) << check.text;
  return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
    EXPECT_EQ((*loaded)->run(refs, check.scalars), "") << check.text;
  });
}

double errorOf(const Tensor &actual, const Tensor &exact) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < exact.floats().size(); ++i) {
    difference += std::pow(actual.floats()[i] - exact.floats()[i], 2);
    norm += std::pow(exact.floats()[i], 2);
  }
  return std::sqrt(difference / norm);
}

void compareErrors(const KernelCheck &check, double units,
                   const KernelCheck *forCpu) {
  Executions executions(check);
  std::vector<Tensor> exact = executions.reference();
  std::vector<Tensor> cpu = Executions(forCpu ? *forCpu : check).onCpu();
  for (const char *chip : chipsFor(check.text)) {
    std::vector<Tensor> gpu = executions.onGpu(chip);
    for (size_t i = 0; i < cpu.size(); ++i) {
      double onCpu = errorOf(cpu[i], exact[i]);
      double least =
          gpu[i].kind() == eval::ElementKind::F32 ? units * 0x1p-24 : 0;
      EXPECT_LE(errorOf(gpu[i], exact[i]), std::max(1.5 * onCpu, least))
          << chip << "; the CPU errs by " << onCpu << " in result " << i
          << " of\n"
          << check.text;
    }
  }
}

} // namespace heddle::test
