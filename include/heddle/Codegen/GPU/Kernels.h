//===- Kernels.h - Kernels for NVIDIA GPUs ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_KERNELS_H
#define HEDDLE_CODEGEN_GPU_KERNELS_H

#include "heddle/Codegen/Common/KernelJobs.h"
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
  bool tf32 = false; ///< Products in f32 round their factors to tf32.
};

/// sm_80 or sm_90; null for others.
const Chip *findChip(llvm::StringRef name);

/// A function that is launched once, on the grid and blocks that it states.
struct MappedLaunch {
  mlir::gpu::GPUFuncOp func;
  int64_t sharedBytes = 0; ///< Of a block, beyond what the function declares.
  llvm::SmallVector<int64_t, 3> cluster; ///< Its blocks; empty: there is none.
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

/// Bytes of the widest access of one thread.
constexpr int64_t accessBytes = 16;

/// Bytes that memory moves together.
constexpr int64_t sectorBytes = 32;

/// Sums over rows that a kernel over rows may hold, and their elements: as many
/// as the registers of its largest block.
constexpr int64_t mostSumsInRows = 4, mostElementsOfSums = 512 * 32;

/// Sums of vectors in one kernel: their addresses are its parameters, and each
/// has blocks of its own.
constexpr int64_t mostVectorSums = 32;

/// Writes the functions of `kernel` for `chip` into `module`. `kernel` is left
/// alone. When there is no mapping the result says which part has none; an
/// emitted diagnostic means that the kernel is wrong.
mlir::FailureOr<MappedKernel> mapKernel(planir::KernelOp kernel,
                                        mlir::gpu::GPUModuleOp module,
                                        const Chip &chip);

/// Gives each result memory of its own, with the pitch that it had.
void untie(planir::KernelOp kernel);

struct PlainMapping : MappedKernel {
  int64_t longestSum = 1;           ///< Terms that one thread sums at most.
  llvm::SmallVector<int64_t> terms; ///< That a thread of each launch sums.
};

/// The same, as plain as it can be: one thread for each element, and loops. No
/// result takes the place of an argument. BINARY check compares with it.
mlir::FailureOr<PlainMapping> mapPlain(planir::KernelOp kernel,
                                       mlir::gpu::GPUModuleOp module);

/// What BINARY check needs of `kernel`: a plan::PlainKernel, as JSON.
mlir::FailureOr<std::string> compilePlain(planir::KernelOp kernel,
                                          const Chip &chip);

/// The name of the plan.object that holds this beside the PTX of a kernel.
std::string plainNameOf(llvm::StringRef object);

/// The settings of a model; the defaults of a module.
config::Settings settingsOf(mlir::Operation *root);
/// What kernels in `root` are compiled for, as their hashes have it: `sm_90`,
/// or `sm_90 tf32`.
std::string describeTarget(llvm::StringRef chip, mlir::Operation *root);

/// The call of cuBLASLt that computes what the kernel does, read from its body;
/// null when there is none, or the strategy of the kernel's model wants none.
mlir::FailureOr<planir::LibraryProductAttr>
libraryProductOf(planir::KernelOp kernel);

/// Lowers a mapped module in place to nvvm and llvm.
mlir::LogicalResult lowerToNvvm(mlir::gpu::GPUModuleOp module);

/// The PTX text of a module that `lowerToNvvm` has lowered. Needs no CUDA.
llvm::Expected<std::string> emitPtx(mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef chip);

/// What ptxas says of a kernel: of the function that needs most.
struct Resources {
  int64_t registers = 0;   ///< Of one thread.
  int64_t sharedBytes = 0; ///< Of one block.
  int64_t localBytes = 0;  ///< Of local memory, spills among it, of one thread.
};

/// The path of ptxas: on PATH or in /usr/local/cuda/bin; empty when there is
/// none.
std::string findPtxas();

/// What ptxas made of a text.
struct Assembly {
  llvm::StringMap<Resources> functions;
  std::string cubin;
};

/// Assembles PTX with the ptxas at `path`. An error holds what it printed.
llvm::Expected<Assembly> assemblePtx(llvm::StringRef path, llvm::StringRef ptx,
                                     llvm::StringRef chip);

/// The name of the object that has the cubin of another's PTX, in base64.
std::string cubinNameOf(llvm::StringRef object);

/// A kernel as PTX.
struct CompiledKernel {
  /// A function, and how it is launched.
  struct Launch {
    std::string symbol;
    llvm::SmallVector<int64_t, 3> grid, block;
    llvm::SmallVector<int64_t, 3> cluster; ///< Empty: there is none.
    int64_t sharedBytes = 0; ///< Beyond what the function declares.
  };
  std::vector<Launch> launches; ///< One after the other.
  int64_t scratchBytes = 0;     ///< That they share.
  std::string ptx;
  std::string cubin;  ///< Of the PTX, in base64; empty without ptxas.
  std::string plain;  ///< What `compilePlain` makes of it.
  std::string reason; ///< Why there is no code; empty when there is.
  std::optional<Resources> resources; ///< When ptxas was there.
};

/// How a mapped function is launched.
CompiledKernel::Launch launchOf(const MappedLaunch &mapped);

/// Compiles a source for `chip`, in a context that has what
/// `registerGpuCodegen` registers. What the ptxas at `ptxas` refuses is an
/// error; with an empty path nothing is assembled.
mlir::FailureOr<CompiledKernel>
compileKernel(const codegen::KernelSource &source, const Chip &chip,
              llvm::StringRef ptxas, mlir::MLIRContext &context);

/// A compiled kernel as bytes for the cache, and back. None when the bytes are
/// of something else.
std::string toBytes(const CompiledKernel &kernel);
std::optional<CompiledKernel> fromBytes(llvm::StringRef bytes);

/// A hash of how a kernel is launched, of its scratch memory and of the source.
/// Its PTX may be edited in a dump, what the plan says of it may not.
std::string sealOf(const CompiledKernel &kernel, llvm::StringRef sourceHash);

/// What became of one plan.kernel.
struct KernelReport {
  std::string name;
  std::string reason; ///< Why there is no code; empty when there is.
  std::optional<Resources> resources; ///< When ptxas was there.
  bool isCached = false;
};

/// Compiles every plan.kernel of a module and of its models to PTX for `chip`,
/// as codegen::KernelJobs does. A kernel that is mapped gets a plan.object
/// beside it with the PTX as its text, and its launches. Others get the remark
/// "no GPU generator for ... yet" and stay without an object; a warning names
/// them all. Where ptxas is found every object is assembled, and what ptxas
/// refuses is an error.
mlir::FailureOr<std::vector<KernelReport>>
compileKernelsForGpu(mlir::ModuleOp module, llvm::StringRef chip,
                     llvm::StringRef cache = "");

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_KERNELS_H
