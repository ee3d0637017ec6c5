//===- CompileKernels.cpp - Every plan.kernel to PTX ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Target.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// A compiled kernel that others of the same body share.
struct Compiled {
  planir::ObjectOp object;
  ArrayAttr launches;
  int64_t scratchBytes = 0;
  std::optional<Resources> resources;
};

class KernelCompiler {
public:
  KernelCompiler(StringRef chip) : chip(chip), ptxas(findPtxas()) {}

  FailureOr<KernelReport> compile(planir::KernelOp kernel);

private:
  FailureOr<Compiled> compileMapped(planir::KernelOp kernel,
                                    mlir::gpu::GPUModuleOp module,
                                    const MappedKernel &mapped);

  std::string chip, ptxas;
  llvm::StringMap<Compiled> byBody;
};
} // namespace

static Attribute launchOf(const MappedLaunch &mapped) {
  auto wide = [](std::optional<ArrayRef<int32_t>> sizes) {
    return SmallVector<int64_t>(sizes->begin(), sizes->end());
  };
  mlir::gpu::GPUFuncOp func = mapped.func;
  return planir::GridLaunchAttr::get(
      func.getContext(), func.getName(), wide(func.getKnownGridSize()),
      wide(func.getKnownBlockSize()), mapped.sharedBytes);
}

FailureOr<Compiled> KernelCompiler::compileMapped(planir::KernelOp kernel,
                                                  mlir::gpu::GPUModuleOp module,
                                                  const MappedKernel &mapped) {
  OpBuilder builder(kernel);
  Compiled result;
  // Lowering replaces the functions, which know their launches.
  result.launches = builder.getArrayAttr(
      llvm::to_vector(llvm::map_range(mapped.launches, launchOf)));
  result.scratchBytes = mapped.scratchBytes;
  if (failed(lowerToNvvm(module)))
    return failure();
  llvm::Expected<std::string> ptx = emitPtx(module, chip);
  if (!ptx)
    return kernel.emitError() << llvm::toString(ptx.takeError());
  if (!ptxas.empty()) {
    llvm::Expected<Resources> resources = assemblePtx(ptxas, *ptx, chip);
    if (!resources)
      return kernel.emitError() << llvm::toString(resources.takeError());
    result.resources = *resources;
  }
  result.object = builder.create<planir::ObjectOp>(
      kernel.getLoc(), (kernel.getSymName() + "_ptx").str(), *ptx,
      /*hash=*/StringAttr());
  return result;
}

FailureOr<KernelReport> KernelCompiler::compile(planir::KernelOp kernel) {
  KernelReport report;
  report.name = kernel.getSymName().str();
  Compiled &compiled = byBody[codegen::textOf(kernel)];
  if (!compiled.object) {
    OwningOpRef<ModuleOp> scratch(ModuleOp::create(kernel.getLoc()));
    auto builder = OpBuilder::atBlockEnd(scratch->getBody());
    auto module = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(),
                                                         kernel.getSymName());
    FailureOr<MappedKernel> mapped = mapKernel(kernel, module, *findChip(chip));
    if (failed(mapped))
      return failure();
    if (!*mapped) {
      report.reason = mapped->reason;
      kernel.emitRemark("no GPU generator for ")
          << report.reason << " yet: @" << report.name;
      return report;
    }
    FailureOr<Compiled> result = compileMapped(kernel, module, *mapped);
    if (failed(result))
      return failure();
    compiled = *result;
  }
  kernel.setObjectAttr(
      FlatSymbolRefAttr::get(compiled.object.getSymNameAttr()));
  kernel.setSymbol(
      cast<planir::GridLaunchAttr>(compiled.launches[0]).getSymbol());
  kernel.setLaunchesAttr(compiled.launches);
  kernel.setScratchBytes(compiled.scratchBytes);
  auto remark = kernel.emitRemark("PTX for ") << chip << ": @" << report.name;
  if (compiled.resources)
    remark << ", " << compiled.resources->registers << " registers, "
           << compiled.resources->sharedBytes << " bytes of shared memory, "
           << compiled.resources->spillBytes << " bytes spilled";
  report.resources = compiled.resources;
  return report;
}

/// Says once which kernels stayed without code.
static void summarize(Operation *root, ArrayRef<KernelReport> reports,
                      StringRef chip) {
  SmallVector<StringRef> missing;
  for (const KernelReport &report : reports)
    if (!report.reason.empty())
      missing.push_back(report.name);
  if (missing.empty())
    return;
  auto warning = root->emitWarning("code for ")
                 << chip << " was made for " << reports.size() - missing.size()
                 << " of " << reports.size()
                 << " kernels; no GPU generator yet for ";
  llvm::interleaveComma(missing, warning);
}

FailureOr<std::vector<KernelReport>> compileKernelsForGpu(Operation *root,
                                                          StringRef chip) {
  if (!findChip(chip))
    return root->emitError("no GPU code can be made for ")
           << chip << "; sm_80 and sm_90 are known";
  SmallVector<planir::KernelOp> kernels;
  root->walk([&](planir::KernelOp kernel) { kernels.push_back(kernel); });
  KernelCompiler compiler(chip);
  std::vector<KernelReport> reports;
  for (planir::KernelOp kernel : kernels) {
    FailureOr<KernelReport> report = compiler.compile(kernel);
    if (failed(report))
      return failure();
    reports.push_back(std::move(*report));
  }
  summarize(root, reports, chip);
  return reports;
}

} // namespace heddle::gpu

namespace heddle {

#define GEN_PASS_DEF_GPUCOMPILEKERNELS
#include "include/heddle/Codegen/GPU/Passes.h.inc"

namespace {
struct GpuCompileKernels : impl::GpuCompileKernelsBase<GpuCompileKernels> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    gpu::registerGpuCodegen(registry);
  }

  void runOnOperation() override {
    if (!chip.empty()) {
      if (failed(gpu::compileKernelsForGpu(getOperation(), chip)))
        signalPassFailure();
      return;
    }
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      StringRef target = wordOf(codegen::strategyOf(model).target);
      if (gpu::findChip(target) &&
          failed(gpu::compileKernelsForGpu(model, target)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace heddle
