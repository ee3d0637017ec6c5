//===- GpuBackEnd.cpp - NVIDIA GPUs as targets ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The back end for NVIDIA GPUs. It says which operations are fused into one
// kernel, and runs the passes that make code. It checks the plan.object
// operations that hold this code, and puts their PTX and cubins into the image
// of a binary.
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "heddle/Codegen/Common/KernelJobs.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "heddle/PlanFormat/PtxImage.h"

using namespace mlir;
using namespace heddle;

namespace {

class BackEnd : public codegen::Target {
public:
  explicit BackEnd(config::Target chip) : chip(chip) {}

  config::Target name() const override { return chip; }
  bool supports(nn::Generator) const override { return true; }
  codegen::FusionRules
  fusionRules(const dist::Strategy &strategy) const override {
    codegen::FusionRules rules;
    rules.sumsInProducts = true;
    // cuBLASLt can write the gradient of a bias, but cannot add it to the
    // gradient so far. If the library may compute products, another kernel
    // therefore does this addition. The library's faster product saves more
    // time than the launch of that kernel takes.
    rules.sumsOntoInits = strategy.gemm == config::Gemm::Generated;
    rules.vectorSums = heddle::gpu::mostVectorSums;
    rules.sumsInRows = heddle::gpu::mostSumsInRows;
    rules.elementsOfSums = heddle::gpu::mostElementsOfSums;
    rules.queriesOfCacheWrites = heddle::gpu::mostQueriesOfWrites;
    rules.rowAlignment = heddle::gpu::sectorBytes;
    rules.packedLayout = nn::PackedLayout::Fragments;
    rules.joinsPackedProducts = true;
    rules.rowsOfPrologues = heddle::gpu::mostNormedRows;
    rules.blocksComputePrologues = true;
    rules.refusalOfPrologue = [this](nn::PackedLinearOp product,
                                     ArrayRef<Operation *> rows) {
      return heddle::gpu::refusalOfNorm(product, rows,
                                        *heddle::gpu::findChip(wordOf(chip)));
    };
    return rules;
  }
  void registerDialects(DialectRegistry &registry) const override {
    heddle::gpu::registerGpuCodegen(registry);
  }
  void buildPipeline(OpPassManager &pm,
                     const codegen::TargetOptions &options) const override {
    GpuCompileKernelsOptions kernels;
    kernels.cache = options.cache;
    pm.addPass(createGpuCompileKernels(kernels));
  }

  LogicalResult verify(ArrayRef<Operation *> roots) const override {
    for (Operation *root : roots) {
      SymbolTable symbols(root);
      for (auto kernel : root->getRegion(0).getOps<planir::KernelOp>())
        if (kernel.getObject() && !kernel.getOnHost() &&
            failed(verify(kernel, codegen::objectOf(symbols, kernel))))
          return failure();
    }
    return success();
  }

  FailureOr<plan::DeviceKind>
  deviceOf(planir::ProgramOp program) const override {
    for (auto kernel : program.getOps<planir::KernelOp>())
      if (!kernel.getObject()) {
        auto error = program.emitError("H0203: no binary can be written: there "
                                       "is no code for ")
                     << wordOf(chip) << " of the kernel @"
                     << kernel.getSymName();
        error.attachNote() << "help: --target x86-64, or --stop-after kernels";
        return error;
      }
    return plan::DeviceKind::Cuda;
  }

  /// Returns the CPU features that a binary needs for kernels that run on the
  /// host. A binary without such kernels needs none, since its host code runs
  /// on every x86-64.
  FailureOr<std::vector<std::string>>
  requirementsOf(planir::ProgramOp program) const override {
    if (!codegen::hasKernelsOnHost(program))
      return std::vector<std::string>();
    FailureOr<const codegen::Target *> host = codegen::findHostTarget(program);
    if (failed(host))
      return failure();
    return (*host)->requirementsOf(program);
  }

  FailureOr<std::string> imageOf(ArrayRef<planir::ObjectOp> objects,
                                 StringRef host) const override {
    plan::PtxImage image;
    image.host = host.str();
    for (planir::ObjectOp object : objects) {
      image.texts.push_back(object.getData().str());
      FailureOr<std::string> cubin = cubinOf(object);
      if (failed(cubin))
        return failure();
      image.cubins.push_back(std::move(*cubin));
      planir::ObjectOp plain =
          besides(object, heddle::gpu::plainNameOf(object.getSymName()));
      if (!plain)
        return object.emitError("H0397: there is no plain kernel beside it");
      auto read = plan::readPlainKernel(plain.getData());
      if (!read) {
        auto error = plain.emitError("H0397: is no plain kernel of this "
                                     "version");
        error.attachNote() << "help: compile it again: --start-from fuse, with "
                              "the dump of that phase";
        return error;
      }
      image.plain.push_back(std::move(*read));
    }
    return plan::writePtxImage(image);
  }

private:
  static planir::ObjectOp besides(planir::ObjectOp object, StringRef name) {
    return dyn_cast_if_present<planir::ObjectOp>(
        SymbolTable::lookupSymbolIn(object->getParentOp(), name));
  }

  /// Returns the cubin of a PTX object, or "" if no ptxas was there to assemble
  /// it.
  static FailureOr<std::string> cubinOf(planir::ObjectOp object) {
    planir::ObjectOp cubin =
        besides(object, heddle::gpu::cubinNameOf(object.getSymName()));
    return cubin ? codegen::codeOf(cubin) : std::string();
  }

  LogicalResult verify(planir::KernelOp kernel, planir::ObjectOp object) const {
    if (!object)
      return kernel.emitError("H0397: names the object @")
             << *kernel.getObject() << ", which is not there";
    if (!object.getData().contains(
            (Twine(".target ") + wordOf(chip) + "\n").str()))
      return object.emitError("H0397: is no PTX for ") << wordOf(chip);
    if (!kernel.getSymbol() || !kernel.getScratchBytes() || !kernel.getHash())
      return kernel.emitError("H0397: is not compiled");
    if (!kernel.getLaunches() || kernel.getLaunches()->empty())
      return kernel.emitError("H0397: does not say how it is launched");
    std::string target =
        heddle::gpu::describeTarget(wordOf(chip), kernel->getParentOp());
    if (failed(codegen::verifySource(kernel, target)))
      return failure();
    heddle::gpu::CompiledKernel code;
    code.scratchBytes = static_cast<int64_t>(*kernel.getScratchBytes());
    for (auto launch :
         kernel.getLaunches()->getAsRange<planir::GridLaunchAttr>())
      code.launches.push_back(
          {launch.getSymbol().str(), SmallVector<int64_t, 3>(launch.getGrid()),
           SmallVector<int64_t, 3>(launch.getBlock()),
           SmallVector<int64_t, 3>(launch.getCluster()), launch.getShared()});
    if (object.getHash() != heddle::gpu::sealOf(code, *kernel.getHash()))
      return object.emitError("H0397: @")
             << object.getSymName()
             << " is not launched as it was compiled for @"
             << kernel.getSymName() << ": its hash differs";
    if (*kernel.getSymbol() != code.launches.front().symbol)
      return kernel.emitError("H0397: its code begins with ")
             << code.launches.front().symbol << ", not with "
             << *kernel.getSymbol();
    return verifyLibrary(kernel);
  }

  static LogicalResult verifyLibrary(planir::KernelOp kernel) {
    FailureOr<planir::LibraryProductAttr> call =
        heddle::gpu::libraryProductOf(kernel);
    if (failed(call))
      return failure();
    if (kernel.getLibraryAttr() != *call)
      return kernel.emitError(
          "H0397: its library product is not that of its body");
    return success();
  }

  config::Target chip;
};

} // namespace

std::unique_ptr<codegen::Target>
heddle::gpu::createBackEnd(config::Target chip) {
  return std::make_unique<BackEnd>(chip);
}
