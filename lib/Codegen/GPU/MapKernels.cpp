//===- MapKernels.cpp - From plan.kernel to gpu.func ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses how each plan.kernel is mapped to the GPU: by its attribute
// `generator`, for example `gemm` or `rows`. Defines the pass gpu-map-kernels,
// which makes a gpu.func of every kernel.
//
//===----------------------------------------------------------------------===//

#include "CacheAddresses.h"
#include "KernelFrame.h"
#include "KernelOrder.h"
#include "LanePatterns.h"
#include "SourceLines.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle {

#define GEN_PASS_DEF_GPUMAPKERNELS
#include "include/heddle/Codegen/GPU/Passes.h.inc"

namespace gpu {

LogicalResult simplify(mlir::gpu::GPUFuncOp func) {
  RewritePatternSet patterns(func.getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  populateLanePatterns(patterns);
  return applyPatternsAndFoldGreedily(func, std::move(patterns));
}

static FailureOr<MappedKernel> mapBody(planir::KernelOp kernel,
                                       mlir::gpu::GPUModuleOp module,
                                       const Chip &chip) {
  switch (kernel.getGenerator()) {
  case nn::Generator::Rows:
    return mapRows(kernel, module);
  case nn::Generator::Columns:
    return mapColumns(kernel, module);
  case nn::Generator::Reduce:
    return mapReduce(kernel, module);
  case nn::Generator::BlockSums:
    return mapBlockSums(kernel, module);
  case nn::Generator::Gemm:
    return mapGemm(kernel, module, chip);
  case nn::Generator::Scatter:
    return mapScatter(kernel, module);
  case nn::Generator::Segments:
    return mapSegments(kernel, module);
  case nn::Generator::Signs:
    return mapSigns(kernel, module);
  case nn::Generator::Attention:
    return mapAttention(kernel, module, chip);
  case nn::Generator::Cache:
    return mapCacheWrite(kernel, module);
  }
  llvm_unreachable("all generators handled");
}

FailureOr<MappedKernel> mapKernel(planir::KernelOp kernel,
                                  mlir::gpu::GPUModuleOp module,
                                  const Chip &chip) {
  OwningOpRef<planir::KernelOp> copy(kernel.clone());
  numberOperations(*copy);
  if (failed(codegen::lowerBodyToLinalg(copy->getBody().front())))
    return failure();
  FailureOr<MappedKernel> mapped = mapBody(*copy, module, chip);
  if (failed(mapped))
    return failure();
  IRRewriter rewriter(kernel.getContext());
  for (const MappedLaunch &launch : mapped->launches) {
    if (failed(simplify(launch.func)))
      return failure();
    DominanceInfo dominance(launch.func);
    eliminateCommonSubExpressions(rewriter, dominance, launch.func);
    if (chip.beginsEarly())
      beginEarly(launch.func);
  }
  return mapped;
}

} // namespace gpu

namespace {
struct GpuMapKernels : impl::GpuMapKernelsBase<GpuMapKernels> {
  using Base::Base;

  void runOnOperation() override {
    const gpu::Chip *known = gpu::findChip(chip);
    if (!known) {
      getOperation().emitError("no GPU code can be made for ") << chip;
      return signalPassFailure();
    }
    auto builder = OpBuilder::atBlockEnd(getOperation().getBody());
    SmallVector<planir::KernelOp> kernels;
    getOperation().walk(
        [&](planir::KernelOp kernel) { kernels.push_back(kernel); });
    for (planir::KernelOp kernel : kernels) {
      auto module = builder.create<mlir::gpu::GPUModuleOp>(
          kernel.getLoc(), (kernel.getSymName() + "_gpu").str());
      FailureOr<gpu::MappedKernel> mapped =
          gpu::mapKernel(kernel, module, *known);
      if (failed(mapped))
        return signalPassFailure();
      if (*mapped) {
        ++numMapped;
        continue;
      }
      ++numUnmapped;
      module.erase();
      kernel.emitRemark("no GPU generator for ")
          << mapped->reason << " yet: @" << kernel.getSymName();
    }
  }
};
} // namespace
} // namespace heddle
