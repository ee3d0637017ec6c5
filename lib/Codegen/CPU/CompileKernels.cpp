//===- CompileKernels.cpp - The pass cpu-compile-kernels ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CpuBackEnd.h"
#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "heddle/Codegen/CPU/Passes.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_CPUCOMPILEKERNELS
#include "include/heddle/Codegen/CPU/Passes.h.inc"
} // namespace heddle

/// A file in the cache of compiled kernels has a header of 8 bytes before the
/// object code: the scratch bytes that each thread of the kernel needs.
static constexpr size_t headerSize = 8;

static FailureOr<std::string>
compileToBytes(const codegen::KernelSource &source,
               const cpu::CpuTarget &target, MLIRContext &context,
               bool sizesOnly) {
  FailureOr<cpu::CompiledKernel> compiled =
      cpu::compileKernel(source, target, context, sizesOnly);
  if (failed(compiled))
    return failure();
  std::string bytes(headerSize, '\0');
  llvm::support::endian::write64le(bytes.data(), compiled->scratchBytes);
  return bytes + compiled->object;
}

namespace {
struct CpuCompileKernels
    : heddle::impl::CpuCompileKernelsBase<CpuCompileKernels> {
  using Base::Base;

  void runOnOperation() override {
    codegen::KernelJobs jobs;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      FailureOr<cpu::CpuTarget> target = cpu::machineOf(model, march);
      if (failed(target))
        return signalPassFailure();
      numShared += jobs.add(
          model, cpu::describe(*target),
          [target = *target, sizesOnly = bool(sizesOnly)](
              const codegen::KernelSource &source, MLIRContext &context) {
            return compileToBytes(source, target, context, sizesOnly);
          },
          cpu::runsKernel);
    }
    jobs.run(sizesOnly ? "" : StringRef(cache), cpu::registerKernelCompiler);
    Objects objects;
    for (const codegen::KernelJobs::Job &job : jobs.all())
      if (failed(attach(job, objects)))
        return signalPassFailure();
  }

private:
  /// The attributes of a plan.object, a compiled kernel in the plan: its code
  /// in base64 and its hash.
  struct Object {
    StringAttr data, seal;
  };
  using Objects = llvm::DenseMap<const codegen::KernelJobs::Result *, Object>;

  LogicalResult attach(const codegen::KernelJobs::Job &job, Objects &objects) {
    planir::KernelOp kernel = job.kernel;
    const codegen::KernelJobs::Result &result = *job.result;
    if (!result.error.empty())
      return kernel.emitError("H0910: cannot be compiled: ") << result.error;
    result.isCached ? ++numCached : ++numCompiled;
    cpu::CompiledKernel compiled;
    compiled.symbol = job.source.symbol;
    compiled.scratchBytes = static_cast<int64_t>(
        llvm::support::endian::read64le(result.code.data()));
    OpBuilder builder(&getContext());
    Object &made = objects[&result];
    if (!made.data) {
      compiled.object = result.code.substr(headerSize);
      made.data = builder.getStringAttr(llvm::encodeBase64(compiled.object));
      made.seal = builder.getStringAttr(cpu::sealOf(compiled, job.source.hash));
    }
    builder.setInsertionPointAfter(kernel);
    auto object = builder.create<planir::ObjectOp>(
        kernel.getLoc(),
        builder.getStringAttr(kernel.getSymName() + Twine(".o")), made.data,
        made.seal);
    kernel.setObject(object.getSymName());
    kernel.setSymbol(compiled.symbol);
    kernel.setHash(job.source.hash);
    kernel.setScratchBytes(compiled.scratchBytes);
    return success();
  }
};

} // namespace
