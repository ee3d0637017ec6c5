//===- EmulatedKernel.cpp - Loading and running emulated kernels ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CompileObject.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

using namespace llvm;

namespace heddle::gpu {

EmulatedKernel::EmulatedKernel() = default;
EmulatedKernel::~EmulatedKernel() = default;

static rt::emulator::Dim3 toDim3(ArrayRef<int32_t> sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

/// The addresses of the support functions, for the linker of `jit`.
static Error defineSupport(orc::LLJIT &jit) {
  orc::SymbolMap symbols;
  for (const rt::emulator::SupportFunction &function :
       rt::emulator::supportFunctions())
    symbols[jit.mangleAndIntern(function.name)] = {
        orc::ExecutorAddr::fromPtr(function.address),
        JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  return jit.getMainJITDylib().define(orc::absoluteSymbols(std::move(symbols)));
}

Expected<std::unique_ptr<EmulatedKernel>>
EmulatedKernel::load(mlir::gpu::GPUFuncOp source) {
  auto grid = source.getKnownGridSize(), block = source.getKnownBlockSize();
  if (!grid || !block)
    return createStringError(inconvertibleErrorCode(),
                             "a kernel does not state its grid and block");
  mlir::OwningOpRef<mlir::ModuleOp> module(
      mlir::ModuleOp::create(source.getLoc()));
  mlir::FailureOr<EmulatedFunc> lowered = lowerToEmulation(source, *module);
  if (failed(lowered))
    return createStringError(inconvertibleErrorCode(),
                             "a kernel cannot be lowered to the emulation");
  // Emulated code need not be fast, and runs on any machine of this level.
  std::optional<cpu::CpuTarget> target = cpu::CpuTarget::parse("x86-64-v3");
  if (!target)
    return createStringError(inconvertibleErrorCode(),
                             "the emulation needs a CPU with AVX2");
  auto object = cpu::compileToObject(*module, *target);
  if (!object)
    return object.takeError();
  auto jit = orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  if (Error error = defineSupport(**jit))
    return error;
  if (Error error = (*jit)->addObjectFile(std::move(*object)))
    return error;
  auto symbol = (*jit)->lookup(source.getName());
  if (!symbol)
    return symbol.takeError();

  std::unique_ptr<EmulatedKernel> kernel(new EmulatedKernel());
  kernel->launch.kernel = symbol->toPtr<rt::emulator::KernelFn>();
  kernel->launch.grid = toDim3(*grid);
  kernel->launch.block = toDim3(*block);
  kernel->launch.workgroupBytes = lowered->workgroupBytes;
  kernel->launch.sites = std::move(lowered->sites);
  kernel->jit = std::move(*jit);
  return kernel;
}

std::string EmulatedKernel::run(ArrayRef<void *> refs,
                                ArrayRef<int64_t> scalars) const {
  return rt::emulator::run(launch, refs.data(), scalars.data());
}

} // namespace heddle::gpu
