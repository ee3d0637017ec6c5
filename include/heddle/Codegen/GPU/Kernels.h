//===- Kernels.h - Kernels for NVIDIA GPUs ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_KERNELS_H
#define HEDDLE_CODEGEN_GPU_KERNELS_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace heddle::gpu {

/// Registers every dialect, interface and translation that GPU code generation
/// uses.
void registerGpuCodegen(mlir::DialectRegistry &registry);

/// A GPU that code can be made for, as the mapping of kernels sees it.
struct Chip {
  llvm::StringRef name;
  int64_t multiprocessors;
};

/// sm_80 or sm_90; null for others.
const Chip *findChip(llvm::StringRef name);

/// A function that is launched once, on the grid and blocks that it states.
struct MappedLaunch {
  mlir::gpu::GPUFuncOp func;
  int64_t sharedBytes = 0; ///< Of a block, beyond what the function declares.
};

/// What became of a kernel: the functions that are launched one after the
/// other, each with all of the kernel's arguments, or why there are none.
struct MappedKernel {
  llvm::SmallVector<MappedLaunch, 2> launches;
  /// Memory that the launches share; what stands there before is undefined.
  int64_t scratchBytes = 0;
  std::string reason;

  explicit operator bool() const { return !launches.empty(); }
  static MappedKernel no(llvm::StringRef reason) {
    return {{}, 0, reason.str()};
  }
};

/// Writes the functions of `kernel` for `chip` into `module`. `kernel` is left
/// alone. When there is no mapping the result says which part has none; an
/// emitted diagnostic means that the kernel is wrong.
mlir::FailureOr<MappedKernel> mapKernel(planir::KernelOp kernel,
                                        mlir::gpu::GPUModuleOp module,
                                        const Chip &chip);

/// Lowers a mapped module in place to nvvm and llvm.
mlir::LogicalResult lowerToNvvm(mlir::gpu::GPUModuleOp module);

/// The PTX text of a module that `lowerToNvvm` has lowered. Needs no CUDA.
llvm::Expected<std::string> emitPtx(mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef chip);

/// What ptxas says of a kernel: of the function that needs most.
struct Resources {
  int64_t registers = 0;   ///< Of one thread.
  int64_t sharedBytes = 0; ///< Of one block.
  int64_t spillBytes = 0;  ///< Stored to local memory by one thread.
};

/// The path of ptxas: on PATH or in /usr/local/cuda/bin; empty when there is
/// none.
std::string findPtxas();

/// Assembles PTX with the ptxas at `path`. An error holds what it printed.
llvm::Expected<Resources> assemblePtx(llvm::StringRef path, llvm::StringRef ptx,
                                      llvm::StringRef chip);

/// What became of one plan.kernel.
struct KernelReport {
  std::string name;
  std::string reason; ///< Why there is no code; empty when there is.
  std::optional<Resources> resources; ///< When ptxas was there.
};

/// Compiles every plan.kernel inside `root` to PTX for `chip`. A kernel that is
/// mapped gets a plan.object beside it with the PTX as its text, and its
/// launches; kernels of equal bodies share one. Others get the remark "no GPU
/// generator for ... yet" and stay without an object; a warning names them all.
/// Where ptxas is found every object is assembled, and what ptxas refuses is an
/// error.
mlir::FailureOr<std::vector<KernelReport>>
compileKernelsForGpu(mlir::Operation *root, llvm::StringRef chip);

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_KERNELS_H
