//===- CompileKernels.cpp - Every plan.kernel to PTX ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass gpu-compile-kernels compiles every plan.kernel of a model to PTX
// and, if ptxas is installed, to a cubin. For each kernel it also adds a second
// version without tiling or other optimizations (plan::PlainKernel). The
// compiled program's command `check` compares the results of both.
//
//===----------------------------------------------------------------------===//

#include "Ptxas.h"
#include "heddle/Codegen/Common/Target.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;

namespace heddle::gpu {

/// Identifies a ptxas by its path, size and time of change. The key of the
/// kernel cache contains this text, so that code from another ptxas is not
/// reused.
static std::string identify(StringRef ptxas) {
  llvm::sys::fs::file_status status;
  if (ptxas.empty() || llvm::sys::fs::status(ptxas, status))
    return "";
  auto time = status.getLastModificationTime().time_since_epoch().count();
  return (ptxas + " " + Twine(status.getSize()) + " " + Twine(time)).str();
}

static planir::GridLaunchAttr
toAttribute(MLIRContext *context, const CompiledKernel::Launch &launch) {
  return planir::GridLaunchAttr::get(context, launch.symbol, launch.grid,
                                     launch.block, launch.cluster,
                                     launch.sharedBytes);
}

/// Attaches the compiled code to a kernel. If the kernel cannot be compiled,
/// emits a remark with the reason.
static FailureOr<KernelReport> attach(planir::KernelOp kernel,
                                      const CompiledKernel &compiled,
                                      StringRef chip, StringRef hash) {
  KernelReport report;
  report.name = kernel.getSymName().str();
  report.reason = compiled.reason;
  report.resources = compiled.resources;
  if (!report.reason.empty()) {
    kernel.emitRemark("no GPU generator for ")
        << report.reason << " yet: @" << report.name;
    return report;
  }
  OpBuilder builder(kernel);
  auto object = builder.create<planir::ObjectOp>(
      kernel.getLoc(), (kernel.getSymName() + "_ptx").str(), compiled.ptx,
      builder.getStringAttr(sealOf(compiled, hash)));
  builder.create<planir::ObjectOp>(kernel.getLoc(),
                                   plainNameOf(object.getSymName()),
                                   compiled.plain, /*hash=*/StringAttr());
  if (!compiled.cubin.empty())
    builder.create<planir::ObjectOp>(kernel.getLoc(),
                                     cubinNameOf(object.getSymName()),
                                     compiled.cubin, /*hash=*/StringAttr());
  SmallVector<Attribute> launches;
  for (const CompiledKernel::Launch &launch : compiled.launches)
    launches.push_back(toAttribute(kernel.getContext(), launch));
  kernel.setObjectAttr(FlatSymbolRefAttr::get(object.getSymNameAttr()));
  kernel.setSymbol(compiled.launches.front().symbol);
  kernel.setHash(hash);
  kernel.setLaunchesAttr(builder.getArrayAttr(launches));
  kernel.setScratchBytes(compiled.scratchBytes);
  // If the kernel is a matrix product, it also gets the description of a
  // cuBLASLt call, which the runtime may use instead of the kernel's code.
  FailureOr<planir::LibraryProductAttr> call = libraryProductOf(kernel);
  if (failed(call))
    return failure();
  if (*call)
    kernel.setLibraryAttr(*call);
  auto remark = kernel.emitRemark("PTX for ") << chip << ": @" << report.name;
  if (compiled.resources)
    remark << ", " << compiled.resources->registers << " registers, "
           << compiled.resources->sharedBytes << " bytes of shared memory, "
           << compiled.resources->localBytes << " bytes of local memory";
  return report;
}

/// Warns once about all kernels that have no code.
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

/// Returns the path of the ptxas that assembles kernels, or "" for none. A
/// broken or outdated ptxas is no error, since a binary also works without
/// cubins: the driver compiles its PTX.
static std::string choosePtxas(ModuleOp module, StringRef chip) {
  std::string ptxas = findPtxas();
  if (ptxas.empty())
    return ptxas;
  std::string why = whyPtxasFails(ptxas, chip);
  if (why.empty())
    return ptxas;
  auto warning = module.emitWarning("the binary holds no cubins, and the "
                                    "driver compiles its PTX: ")
                 << ptxas << " assembles not even an empty kernel for " << chip
                 << ": " << why;
  warning.attachNote() << "help: put the ptxas of CUDA 12.0 or newer first on "
                          "PATH";
  return {};
}

FailureOr<std::vector<KernelReport>>
compileKernelsForGpu(ModuleOp module, StringRef chip, StringRef cache) {
  const Chip *known = findChip(chip);
  if (!known)
    return module.emitError("no GPU code can be made for ")
           << chip << "; sm_80 and sm_90 are known";
  std::string ptxas = choosePtxas(module, chip);
  codegen::KernelJobs jobs;
  auto add = [&](Operation *root) {
    Chip target = *known;
    setProducts(target, root);
    auto compile = [target,
                    &ptxas](const codegen::KernelSource &source,
                            MLIRContext &context) -> FailureOr<std::string> {
      FailureOr<CompiledKernel> compiled =
          compileKernel(source, target, ptxas, context);
      if (failed(compiled))
        return failure();
      return toBytes(*compiled);
    };
    jobs.add(root, describeTarget(chip, root), compile,
             [](planir::KernelOp kernel) { return !kernel.getOnHost(); });
  };
  add(module);
  for (auto model : module.getOps<nn::ModelOp>())
    add(model);
  jobs.run(cache, registerGpuCodegen, identify(ptxas));

  std::vector<KernelReport> reports;
  for (const codegen::KernelJobs::Job &job : jobs.all()) {
    planir::KernelOp kernel = job.kernel;
    if (!job.result->error.empty())
      return kernel.emitError("H0910: cannot be compiled: ")
             << job.result->error;
    std::optional<CompiledKernel> compiled = fromBytes(job.result->code);
    if (!compiled)
      return kernel.emitError("H0910: cannot be compiled: the cache holds "
                              "something else in its place");
    auto report = attach(kernel, *compiled, chip, job.source.hash);
    if (failed(report))
      return failure();
    report->isCached = job.result->isCached;
    reports.push_back(std::move(*report));
  }
  summarize(module, reports, chip);
  return reports;
}

} // namespace heddle::gpu

namespace heddle {

#define GEN_PASS_DEF_GPUCOMPILEKERNELS
#include "include/heddle/Codegen/GPU/Passes.h.inc"

namespace {
struct GpuCompileKernels : impl::GpuCompileKernelsBase<GpuCompileKernels> {
  using Base::Base;

  void runOnOperation() override {
    std::string name = chip;
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (StringRef target = wordOf(codegen::strategyOf(model).target);
          name.empty() && gpu::findChip(target))
        name = target.str();
    if (name.empty())
      return;
    auto reports = gpu::compileKernelsForGpu(getOperation(), name, cache);
    if (failed(reports))
      return signalPassFailure();
    for (const gpu::KernelReport &report : *reports)
      report.isCached ? ++numCached : ++numCompiled;
  }
};
} // namespace
} // namespace heddle
