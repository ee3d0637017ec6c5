//===- Emulation.h - GPU kernels executed on the CPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a mapped kernel, which consists of gpu.func operations, to PTX as
// for a GPU. Executes the PTX in the machine of heddle::emulator. Tests use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_EMULATION_H
#define HEDDLE_CODEGEN_GPU_EMULATION_H

#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Eval/PtxKernel.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace heddle::gpu {

/// The PTX of a kernel, loaded into the emulator.
class EmulatedKernel {
public:
  /// Compiles the functions of `source` for `chip`.
  static llvm::Expected<std::unique_ptr<EmulatedKernel>>
  load(const MappedKernel &source, llvm::StringRef chip);

  /// Runs all launches of the kernel. Returns an error message, or "". `refs`
  /// are the addresses of the kernel's buffers. An access beyond the size of a
  /// buffer's type is an error. Adds the counts of the executed operations to
  /// `counters`.
  std::string run(llvm::ArrayRef<void *> refs,
                  llvm::ArrayRef<int64_t> scalars = {},
                  emulator::Counters *counters = nullptr) const {
    return kernel.run(refs, scalars, /*scratch=*/nullptr, counters);
  }

private:
  EmulatedKernel() = default;

  eval::PtxKernel kernel;
};

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_EMULATION_H
