//===- Emulation.h - GPU kernels executed on the CPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same gpu.func that becomes PTX is lowered to x86-64, each GPU thread a
// fiber of heddle::rt::emulator.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_EMULATION_H
#define HEDDLE_CODEGEN_GPU_EMULATION_H

#include "heddle/runtime/devices/emulator/Emulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace heddle::gpu {

/// A gpu.func as a function of one thread.
struct EmulatedFunc {
  /// `(refs: !llvm.ptr, scalars: !llvm.ptr)`: addresses of the buffers, values
  /// of the index arguments.
  mlir::func::FuncOp func;
  int64_t workgroupBytes = 0;
  std::vector<std::string> sites; ///< What stands at each numbered place.
};

/// Writes the function of `source` into `target`.
mlir::FailureOr<EmulatedFunc> lowerToEmulation(mlir::gpu::GPUFuncOp source,
                                               mlir::ModuleOp target);

/// A kernel loaded into this process.
class EmulatedKernel {
public:
  /// Lowers, compiles and loads `source`, which states its grid and block.
  static llvm::Expected<std::unique_ptr<EmulatedKernel>>
  load(mlir::gpu::GPUFuncOp source);
  ~EmulatedKernel();

  /// Runs the whole grid; returns what went wrong, or an empty string.
  std::string run(llvm::ArrayRef<void *> refs,
                  llvm::ArrayRef<int64_t> scalars = {}) const;

private:
  EmulatedKernel();

  std::unique_ptr<llvm::orc::LLJIT> jit;
  rt::emulator::Launch launch;
};

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_EMULATION_H
