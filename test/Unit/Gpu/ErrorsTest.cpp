//===- ErrorsTest.cpp - Errors of GPU kernels beside those of x86 ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelHarness.h"
#include "../Kernels/KernelReference.h"
#include "AttentionTexts.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace heddle;
using namespace heddle::test;
using eval::Tensor;

namespace {

/// What a kernel gives on the CPU, and in the emulator.
class Executions {
public:
  Executions(const KernelCheck &check) : check(check) {
    mlir::DialectRegistry registry;
    cpu::registerKernelCompiler(registry);
    gpu::registerGpuCodegen(registry);
    context = createKernelContext(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(check.text, context.get());
    kernel = *module->getOps<planir::KernelOp>().begin();
    arguments = randomArguments(kernel, check);
  }

  /// In double precision throughout.
  std::vector<Tensor> reference() {
    return evaluate(kernel, arguments, /*isRounded=*/false);
  }

  std::vector<Tensor> onCpu() {
    LoadedKernel loaded(kernel, *cpu::CpuTarget::parse("native"));
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      loaded.run(refs, check.scalars, 1);
    });
  }

  std::vector<Tensor> onGpu(bool tf32 = false) {
    gpu::Chip chip = *gpu::findChip("sm_80");
    chip.tf32 = tf32;
    auto builder = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto target =
        builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
    auto mapped = gpu::mapKernel(kernel, target, chip);
    EXPECT_TRUE(succeeded(mapped) && *mapped);
    auto loaded = gpu::EmulatedKernel::load(*mapped, chip.name);
    EXPECT_TRUE(static_cast<bool>(loaded));
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      EXPECT_EQ((*loaded)->run(refs, check.scalars), "");
    });
  }

private:
  const KernelCheck &check;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  planir::KernelOp kernel;
  std::vector<Tensor> arguments;
};

/// The norm of actual - expected over the norm of expected.
double errorOf(const Tensor &actual, const Tensor &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.floats().size(); ++i) {
    difference += std::pow(actual.floats()[i] - expected.floats()[i], 2);
    norm += std::pow(expected.floats()[i], 2);
  }
  return std::sqrt(difference / norm);
}

/// A GPU may err half as much again as the CPU; in f32 by four units in the
/// last place whatever the CPU does.
void compareErrors(const KernelCheck &check) {
  Executions executions(check);
  std::vector<Tensor> expected = executions.reference();
  std::vector<Tensor> cpu = executions.onCpu(), gpu = executions.onGpu();
  for (size_t i = 0; i < expected.size(); ++i) {
    double onCpu = errorOf(cpu[i], expected[i]);
    double onGpu = errorOf(gpu[i], expected[i]);
    double unit = gpu[i].kind() == eval::ElementKind::F32 ? 0x1p-24 : 0;
    EXPECT_LE(onGpu, std::max(1.5 * onCpu, 4 * unit))
        << "the CPU errs by " << onCpu << " in result " << i << " of\n"
        << check.text;
  }
}

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
      double error = errorOf(executions.onGpu(/*tf32=*/true)[0], expected[0]);
      EXPECT_LE(error, 0x1p-11) << m << " " << n << " " << k;
      EXPECT_GE(error, 0x1p-14) << m << " " << n << " " << k;
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

TEST_P(GpuErrors, Attention) {
  for (double p : {0.0, 0.25})
    for (bool isGradient : {false, true})
      compareErrors(attentionCheck(
          {72, 4, 2, 64, GetParam(), /*causal=*/p == 0, p}, isGradient, 0));
}

INSTANTIATE_TEST_SUITE_P(Types, GpuErrors, testing::Values("f32", "bf16"));

} // namespace
