//===- EmulatedKernel.cpp - Running kernels without a GPU -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/IR/OwningOpRef.h"

using namespace llvm;

namespace heddle::gpu {

static rt::emulator::Dim3 toDim3(ArrayRef<int32_t> sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

/// The PTX of a function, which stays as it is.
static Expected<std::string> compileToPtx(mlir::gpu::GPUFuncOp source,
                                          StringRef chip) {
  mlir::OwningOpRef<mlir::ModuleOp> scratch(
      mlir::ModuleOp::create(source.getLoc()));
  auto builder = mlir::OpBuilder::atBlockEnd(scratch->getBody());
  auto module = builder.create<mlir::gpu::GPUModuleOp>(source.getLoc(), "gpu");
  builder.setInsertionPointToStart(module.getBody());
  builder.clone(*source);
  if (failed(lowerToNvvm(module)))
    return createStringError(inconvertibleErrorCode(),
                             "a kernel cannot be lowered to nvvm");
  return emitPtx(module, chip);
}

Expected<std::unique_ptr<EmulatedKernel>>
EmulatedKernel::load(mlir::gpu::GPUFuncOp source, StringRef chip) {
  auto grid = source.getKnownGridSize(), block = source.getKnownBlockSize();
  if (!grid || !block)
    return createStringError(inconvertibleErrorCode(),
                             "a kernel does not state its grid and block");
  Expected<std::string> ptx = compileToPtx(source, chip);
  if (!ptx)
    return ptx.takeError();
  std::unique_ptr<EmulatedKernel> kernel(new EmulatedKernel());
  std::string error;
  kernel->module = rt::emulator::Module::load(*ptx, error);
  if (!kernel->module)
    return createStringError(inconvertibleErrorCode(), error + " of\n" + *ptx);
  kernel->launch.kernel = source.getName().str();
  kernel->launch.grid = toDim3(*grid);
  kernel->launch.block = toDim3(*block);
  for (mlir::Type type : source.getArgumentTypes()) {
    std::optional<int64_t> bytes;
    if (auto memref = dyn_cast<mlir::MemRefType>(type))
      bytes = dist::byteSize(memref);
    kernel->arguments.push_back(bytes);
  }
  return kernel;
}

std::string EmulatedKernel::run(ArrayRef<void *> refs,
                                ArrayRef<int64_t> scalars) const {
  rt::emulator::Launch call = launch;
  rt::emulator::GlobalMemory memory;
  const void *const *ref = refs.begin();
  const int64_t *scalar = scalars.begin();
  for (const std::optional<int64_t> &bytes : arguments) {
    if (!bytes) {
      call.arguments.push_back(scalar++);
      continue;
    }
    std::string name = "argument " + std::to_string(call.arguments.size());
    memory.add(name, const_cast<void *>(*ref), *bytes);
    call.arguments.push_back(ref++);
  }
  return module->run(call, memory, rt::emulator::Options::fromEnvironment());
}

} // namespace heddle::gpu
