//===- Kernels.h - Kernels for NVIDIA GPUs ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps from a plan.kernel to code for an NVIDIA GPU: mapping to gpu.func,
// lowering, PTX, and a cubin where ptxas is installed. The back end and the
// passes of Passes.td use them.
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

/// Registers all dialects, interfaces and translations that GPU code generation
/// uses.
void registerGpuCodegen(mlir::DialectRegistry &registry);

/// A supported chip, with the facts that the mapping of kernels needs.
struct Chip {
  llvm::StringRef name;
  int64_t multiprocessors;
  int64_t sharedBytes; ///< Shared memory of a multiprocessor.
  /// How products in f32 are multiplied (--matmul).
  config::Matmul matmul = config::Matmul::Ieee;
  /// Whether the order in which a product adds its terms must not depend on the
  /// number of rows. Binaries that serve or encode need this.
  bool fixedSums = false;

  /// The most shared memory of a block. The multiprocessor takes some of its
  /// own for each block.
  int64_t blockBytes() const { return sharedBytes - reservedBytes; }
  /// The most shared memory of a block if two fit on a multiprocessor.
  int64_t halfBytes() const { return sharedBytes / 2 - reservedBytes; }
  static constexpr int64_t reservedBytes = 1024;

  /// Whether kernels begin before the end of the kernel before them
  /// (KernelOrder.h). Kernels that serve are short, and their weights are known
  /// before their other operands.
  bool beginsEarly() const { return fixedSums && name != "sm_80"; }
};

/// The chip sm_80 or sm_90; null for other names.
const Chip *findChip(llvm::StringRef name);

/// A function that is launched once. Its attributes have the sizes of the grid
/// and of a block.
struct MappedLaunch {
  mlir::gpu::GPUFuncOp func;
  int64_t sharedBytes = 0; ///< Dynamic shared memory of a block, beyond what
                           ///< the function declares.
  llvm::SmallVector<int64_t, 3> cluster; ///< Blocks of a cluster; empty: no
                                         ///< clusters.
};

/// The result of mapping a kernel: functions that are launched in order, each
/// with all arguments of the kernel, or the reason why there are none.
struct MappedKernel {
  llvm::SmallVector<MappedLaunch, 2> launches;
  /// Bytes of scratch memory that the launches share. The content of this
  /// memory is undefined before the first launch.
  int64_t scratchBytes = 0;
  std::string reason;

  explicit operator bool() const { return !launches.empty(); }
  static MappedKernel no(llvm::StringRef reason) {
    return {{}, 0, reason.str()};
  }
};

/// Bytes of the widest access of one thread.
constexpr int64_t accessBytes = 16;

/// Bytes of a sector, the unit of accesses to global memory.
constexpr int64_t sectorBytes = 32;

/// Limits for column sums (sums over rows) in a row-wise kernel: how many there
/// may be, and how many elements they may have together. The elements must fit
/// in the registers of the largest block.
constexpr int64_t mostSumsInRows = 4, mostElementsOfSums = 512 * 32;

/// The largest number of additions of two vectors in one kernel. Separate
/// thread blocks compute each addition. The number is limited because the
/// addresses of all vectors are parameters of the kernel.
constexpr int64_t mostVectorSums = 32;

/// The largest number of queries of a key head (tokens of a row, times the
/// query heads that share the key head) in a kernel that writes the cache and
/// computes attention over it. One block must have all of them.
constexpr int64_t mostQueriesOfWrites = 16;

/// The largest number of rows that the kernel of a product computes itself.
constexpr int64_t mostNormedRows = 32;

/// Returns why the kernel of a product cannot compute the product's rows by the
/// operations `rows`; empty if it can. Each of its blocks computes all rows.
std::string refusalOfNorm(nn::PackedLinearOp product,
                          llvm::ArrayRef<mlir::Operation *> rows,
                          const Chip &chip);

/// Maps `kernel`, which does not change, for `chip`, and writes its functions
/// into `module`. If the kernel has no mapping, the result's `reason` says why.
/// Fails, after emitting an error, if the kernel is invalid.
mlir::FailureOr<MappedKernel> mapKernel(planir::KernelOp kernel,
                                        mlir::gpu::GPUModuleOp module,
                                        const Chip &chip);

/// Changes `kernel` so that no result overwrites an argument. A result that
/// overwrote one gets separate memory with the same leading dimension.
void untie(planir::KernelOp kernel);

struct PlainMapping : MappedKernel {
  int64_t longestSum = 1; ///< The largest number of terms that one thread sums.
  /// For each launch: the number of terms that one thread sums. If it is large,
  /// the compiled program's command `check` runs fewer blocks of the launch, to
  /// save time.
  llvm::SmallVector<int64_t> terms;
};

/// Maps `kernel` without optimizations: one thread computes one element, with
/// plain loops. The compiled program's command `check` runs this plain kernel
/// and compares its results with those of the optimized kernel. No result
/// overwrites an argument.
mlir::FailureOr<PlainMapping> mapPlain(planir::KernelOp kernel,
                                       mlir::gpu::GPUModuleOp module);

/// Compiles the plain kernel of `kernel`: a version without optimizations,
/// whose results the compiled program's command `check` compares with those of
/// `kernel`. Returns a plan::PlainKernel as JSON.
mlir::FailureOr<std::string> compilePlain(planir::KernelOp kernel,
                                          const Chip &chip);

/// A kernel whose PTX is in the plan.object `object` also has a version without
/// optimizations (see `compilePlain`). Returns the name of the plan.object that
/// holds this version.
std::string plainNameOf(llvm::StringRef object);

/// The settings of `root` if it is a model; if it is a module, the default
/// settings.
config::Settings settingsOf(mlir::Operation *root);

/// Sets how `target` multiplies, by the settings of `root`.
void setProducts(Chip &target, mlir::Operation *root);
/// Describes the target of the kernels in `root`, for the hashes of kernels:
/// `sm_90`, or `sm_90 tf32`.
std::string describeTarget(llvm::StringRef chip, mlir::Operation *root);

/// Describes the cuBLASLt call that computes the same as the kernel's body.
/// Null if no such call exists, or if the settings of the kernel's model do
/// not allow the library.
mlir::FailureOr<planir::LibraryProductAttr>
libraryProductOf(planir::KernelOp kernel);

/// Lowers a mapped module in place to the nvvm and llvm dialects.
mlir::LogicalResult lowerToNvvm(mlir::gpu::GPUModuleOp module);

/// Returns the PTX of a module that `lowerToNvvm` has lowered. Needs no CUDA.
llvm::Expected<std::string> emitPtx(mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef chip);

/// The resources that ptxas reports for a kernel. If the kernel has several
/// functions, each field is the maximum over them.
struct Resources {
  int64_t registers = 0;   ///< Registers of a thread.
  int64_t sharedBytes = 0; ///< Shared memory of a block.
  int64_t localBytes = 0;  ///< Local memory of a thread, with spilled
                           ///< registers.
};

/// The path of ptxas, from PATH or /usr/local/cuda/bin; "" if it is not found.
std::string findPtxas();

/// The output of ptxas.
struct Assembly {
  llvm::StringMap<Resources> functions;
  std::string cubin;
};

/// Assembles PTX with the ptxas at `path`. An error has the text that ptxas
/// printed.
llvm::Expected<Assembly> assemblePtx(llvm::StringRef path, llvm::StringRef ptx,
                                     llvm::StringRef chip);

/// The name of the plan.object that holds, in base64, the cubin assembled from
/// the PTX in the plan.object `object`.
std::string cubinNameOf(llvm::StringRef object);

/// A kernel compiled to PTX.
struct CompiledKernel {
  /// A function and the configuration of its launch.
  struct Launch {
    std::string symbol;
    llvm::SmallVector<int64_t, 3> grid, block;
    llvm::SmallVector<int64_t, 3> cluster; ///< Blocks of a cluster; empty: no
                                           ///< clusters.
    int64_t sharedBytes = 0;               ///< Dynamic shared memory.
  };
  std::vector<Launch> launches; ///< In the order of execution.
  int64_t scratchBytes = 0;     ///< Shared by the launches.
  std::string ptx;
  std::string cubin;                  ///< In base64; empty without ptxas.
  std::string plain;                  ///< The result of `compilePlain`.
  std::string reason;                 ///< Why there is no code; "" if there is.
  std::optional<Resources> resources; ///< Only with ptxas.
};

/// Returns the configuration of a function's launch without a reference to the
/// function in MLIR: its name, and the sizes that its attributes have.
CompiledKernel::Launch launchOf(const MappedLaunch &mapped);

/// Compiles the source of a kernel for `chip`. `context` must have everything
/// that `registerGpuCodegen` registers. `ptxas` is the path of the assembler;
/// if it is empty, the PTX is not assembled. PTX that ptxas refuses is an
/// error.
mlir::FailureOr<CompiledKernel>
compileKernel(const codegen::KernelSource &source, const Chip &chip,
              llvm::StringRef ptxas, mlir::MLIRContext &context);

/// Converts a compiled kernel to bytes for the cache, and back. `fromBytes`
/// returns nullopt if the bytes are not a compiled kernel.
std::string toBytes(const CompiledKernel &kernel);
std::optional<CompiledKernel> fromBytes(llvm::StringRef bytes);

/// A hash of a kernel's launches, its scratch size, and `sourceHash`, the hash
/// of its source. The plan.object of the kernel has it as an attribute. If a
/// user edits the launches or the scratch size in a dump, the hash no longer
/// matches, so that the compiler refuses the dump. The PTX is not hashed, since
/// a user may edit it.
std::string sealOf(const CompiledKernel &kernel, llvm::StringRef sourceHash);

/// What happened to one plan.kernel.
struct KernelReport {
  std::string name;
  std::string reason;                 ///< Why there is no code; "" if there is.
  std::optional<Resources> resources; ///< Only with ptxas.
  bool isCached = false;
};

/// Compiles all plan.kernels of a module and of its models to PTX for `chip`,
/// by codegen::KernelJobs. A kernel that can be mapped gets its launches and a
/// plan.object with the PTX. Other kernels get the remark "no GPU generator for
/// ... yet" and no object, and one warning lists all of them. If ptxas is
/// found, every object is assembled, and PTX that ptxas refuses is an error.
mlir::FailureOr<std::vector<KernelReport>>
compileKernelsForGpu(mlir::ModuleOp module, llvm::StringRef chip,
                     llvm::StringRef cache = "");

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_KERNELS_H
