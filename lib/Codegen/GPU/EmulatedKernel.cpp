//===- EmulatedKernel.cpp - Running kernels without a GPU -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a kernel that is mapped to gpu.func operations to PTX, and loads the
// PTX into the emulator.
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/GPU/Emulation.h"
#include "mlir/IR/OwningOpRef.h"

using namespace llvm;

namespace heddle::gpu {

static emulator::Dim3 toDim3(ArrayRef<int32_t> sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

/// Compiles the functions of `source` to PTX. Works on a copy of their module,
/// since compiling changes it.
static Expected<std::string> compileToPtx(const MappedKernel &source,
                                          StringRef chip) {
  mlir::gpu::GPUFuncOp first = source.launches.front().func;
  mlir::OwningOpRef<mlir::ModuleOp> scratch(
      mlir::ModuleOp::create(first.getLoc()));
  auto builder = mlir::OpBuilder::atBlockEnd(scratch->getBody());
  // Cloning the module also copies its constant tables.
  auto module = cast<mlir::gpu::GPUModuleOp>(
      builder.clone(*first->getParentOfType<mlir::gpu::GPUModuleOp>()));
  if (failed(lowerToNvvm(module)))
    return createStringError(inconvertibleErrorCode(),
                             "a kernel cannot be lowered to nvvm");
  return emitPtx(module, chip);
}

Expected<std::unique_ptr<EmulatedKernel>>
EmulatedKernel::load(const MappedKernel &source, StringRef chip) {
  Expected<std::string> ptx = compileToPtx(source, chip);
  if (!ptx)
    return ptx.takeError();
  std::unique_ptr<EmulatedKernel> result(new EmulatedKernel());
  eval::PtxKernel &kernel = result->kernel;
  std::string error;
  kernel.module = emulator::Module::load(*ptx, error);
  if (!kernel.module)
    return createStringError(inconvertibleErrorCode(), error + " of\n" + *ptx);
  for (MappedLaunch mapped : source.launches) {
    emulator::Launch launch;
    launch.kernel = mapped.func.getName().str();
    launch.grid = toDim3(*mapped.func.getKnownGridSize());
    launch.block = toDim3(*mapped.func.getKnownBlockSize());
    if (!mapped.cluster.empty())
      launch.cluster = {mapped.cluster[0], mapped.cluster[1],
                        mapped.cluster[2]};
    launch.sharedBytes = mapped.sharedBytes;
    kernel.launches.push_back(std::move(launch));
  }
  kernel.scratchBytes = source.scratchBytes;
  mlir::gpu::GPUFuncOp first = source.launches.front().func;
  for (mlir::Type type : first.getArgumentTypes()) {
    std::optional<int64_t> bytes;
    if (auto memref = dyn_cast<mlir::MemRefType>(type))
      bytes = dist::byteSize(memref);
    kernel.arguments.push_back(bytes);
  }
  return result;
}

} // namespace heddle::gpu
