//===- KernelCompiler.h - One plan.kernel to one object ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_KERNELCOMPILER_H
#define HEDDLE_CODEGEN_CPU_KERNELCOMPILER_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/Common/KernelJobs.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::cpu {

/// A kernel as x86-64 code.
struct CompiledKernel {
  std::string symbol;       ///< Of its function.
  int64_t scratchBytes = 0; ///< That each thread needs.
  std::string object;       ///< A relocatable ELF file.
};

/// What decides the code of a kernel besides its text.
std::string describe(const CpuTarget &target);

/// The source of `kernel` for `target`.
inline codegen::KernelSource sourceOf(planir::KernelOp kernel,
                                      const CpuTarget &target) {
  return codegen::sourceOf(kernel, describe(target));
}

/// The hash that an object has in a dump: it ties the code to its symbol and
/// scratch memory, and to the source that it was made from.
std::string sealOf(const CompiledKernel &kernel, llvm::StringRef sourceHash);

/// Everything that compiling kernels needs in a context.
void registerKernelCompiler(mlir::DialectRegistry &registry);

/// Adds the function `symbol` of `kernel`, with the ABI of plan::Kernel, to
/// `module`. The kernel's body is lowered to linalg in place. Returns the bytes
/// of scratch that each thread needs.
mlir::FailureOr<int64_t> emitKernelFunction(planir::KernelOp kernel,
                                            llvm::StringRef symbol,
                                            const CpuTarget &target,
                                            mlir::ModuleOp module);

/// Compiles a source in `context`, which has what `registerKernelCompiler`
/// registers. Diagnostics go to the context. With `sizesOnly` the function that
/// comes of it is empty: the scratch is known before there is code.
mlir::FailureOr<CompiledKernel>
compileKernel(const codegen::KernelSource &source, const CpuTarget &target,
              mlir::MLIRContext &context, bool sizesOnly = false);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_KERNELCOMPILER_H
