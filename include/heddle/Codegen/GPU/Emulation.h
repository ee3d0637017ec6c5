//===- Emulation.h - GPU kernels executed on the CPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gpu.func becomes PTX as for a GPU, and that text runs in the machine of
// heddle::rt::emulator.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_EMULATION_H
#define HEDDLE_CODEGEN_GPU_EMULATION_H

#include "heddle/runtime/devices/emulator/Machine.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace heddle::gpu {

/// A kernel's PTX, ready to run.
class EmulatedKernel {
public:
  /// Compiles `source`, which states its grid and block, for `chip`.
  static llvm::Expected<std::unique_ptr<EmulatedKernel>>
  load(mlir::gpu::GPUFuncOp source, llvm::StringRef chip);

  /// Runs the whole grid; returns what went wrong, or an empty string. `refs`
  /// are the addresses of the buffers, which nothing beyond their types' sizes
  /// may touch.
  std::string run(llvm::ArrayRef<void *> refs,
                  llvm::ArrayRef<int64_t> scalars = {}) const;

private:
  EmulatedKernel() = default;

  std::unique_ptr<rt::emulator::Module> module;
  rt::emulator::Launch launch;
  /// Bytes of each argument's buffer; none for a scalar.
  std::vector<std::optional<int64_t>> arguments;
};

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_EMULATION_H
