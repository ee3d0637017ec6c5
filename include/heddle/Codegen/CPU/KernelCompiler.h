//===- KernelCompiler.h - Compiles one plan.kernel --------------*- C++ -*-===//
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
  std::string symbol;       ///< The function's symbol.
  int64_t scratchBytes = 0; ///< Bytes of scratch that each thread needs.
  std::string object;       ///< A relocatable ELF file.
};

/// The properties of `target` that the code of a kernel depends on, as text
/// that is hashed with the kernel.
std::string describe(const CpuTarget &target);

/// The source of `kernel` for `target`: the MLIR that is hashed and compiled.
inline codegen::KernelSource sourceOf(planir::KernelOp kernel,
                                      const CpuTarget &target) {
  return codegen::sourceOf(kernel, describe(target));
}

/// The hash that is an attribute of a plan.object, a compiled kernel. It covers
/// the code, its symbol, its scratch size and the hash of its source. If a user
/// edits the code in a dump, the hash no longer matches and the compiler
/// refuses the dump.
std::string sealOf(const CompiledKernel &kernel, llvm::StringRef sourceHash);

/// Registers the dialects and translations that compiling kernels needs.
void registerKernelCompiler(mlir::DialectRegistry &registry);

/// Adds a function to `module` that computes `kernel`. Its name is `symbol`;
/// plan::Kernel describes its ABI. Lowers the kernel's body to linalg in place.
/// Returns the bytes of scratch that each thread needs.
mlir::FailureOr<int64_t> emitKernelFunction(planir::KernelOp kernel,
                                            llvm::StringRef symbol,
                                            const CpuTarget &target,
                                            mlir::ModuleOp module);

/// Compiles the source of a kernel, which is MLIR. `context` must have the
/// dialects that `registerKernelCompiler` registers; it receives the
/// diagnostics. With `sizesOnly` only the scratch size is computed and the
/// function is empty.
mlir::FailureOr<CompiledKernel>
compileKernel(const codegen::KernelSource &source, const CpuTarget &target,
              mlir::MLIRContext &context, bool sizesOnly = false);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_KERNELCOMPILER_H
