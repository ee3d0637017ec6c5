//===- KernelFrame.h - The gpu.func of one plan.kernel ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H
#define HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H

#include "ElementEmitter.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <memory>

namespace heddle::gpu {

/// Lanes of a warp.
constexpr int64_t warpSize = 32;

/// How a function of a kernel is written.
struct FrameOptions {
  bool flat = false; ///< Every buffer has one dimension.
  /// Of the kernel's scratch memory; 0: the function does not take it. All
  /// functions of a kernel agree.
  int64_t scratchBytes = 0;
  std::string
      suffix; ///< To the kernel's name, for all functions but the first.
};

/// A function of a kernel being written. It takes the tensor arguments of the
/// plan.kernel as memrefs, then its results that are not tied, then the scratch
/// memory, then its index arguments, as i64.
class KernelFrame {
public:
  /// Starts the function inside `module`. The body of `kernel` is linalg on
  /// tensors (lowerBodyToLinalg).
  KernelFrame(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
              const FrameOptions &options);

  /// Emits the body's scalar operations; why it cannot is in `reason`.
  mlir::LogicalResult emitScalars();

  /// The memory of yielded value `i`.
  mlir::Value outputBuffer(unsigned i) const { return outputs[i]; }
  mlir::Value yielded(unsigned i) const { return yield->getOperand(i); }
  unsigned numOutputs() const { return yield->getNumOperands(); }
  /// The numbers of all yielded values.
  llvm::SmallVector<unsigned> allOutputs() const {
    return llvm::to_vector(llvm::seq<unsigned>(0, numOutputs()));
  }
  /// The memory of an argument of the kernel; null for other values.
  mlir::Value argumentBuffer(mlir::Value argument) const;
  /// The value of an index argument of the kernel, as an i64.
  mlir::Value argumentScalar(mlir::Value argument) const {
    return scalarArguments.lookup(argument);
  }

  /// Workgroup memory, aligned to 16 bytes.
  mlir::Value addWorkgroup(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// A part of the scratch memory, `offset` bytes behind its begin.
  mlir::Value scratch(int64_t offset, llvm::ArrayRef<int64_t> shape,
                      mlir::Type element);
  /// Writes the return and records the launch.
  void finish(llvm::ArrayRef<int64_t> grid, int64_t threads,
              int64_t sharedBytes = 0);
  const MappedLaunch &launch() const { return mapped; }

  /// Stores elements at `indices`, whose last one is the chunk's first column,
  /// as one vector; a single element as what it is, a scalar or a vector.
  void store(llvm::ArrayRef<mlir::Value> elements, mlir::Value buffer,
             llvm::ArrayRef<mlir::Value> indices);

  mlir::Value constant(int64_t value);
  /// Of the block, or of the team after `beginTeams`.
  mlir::Value threadId();
  /// From here on, so many threads beside each other are a team. Its number.
  mlir::Value beginTeams(int64_t threads);
  void endTeams() { teamThreads = 0; }
  mlir::Value blockId(mlir::gpu::Dimension dimension);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a,
                      int64_t b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  /// `linear` as indices of a row-major space of this shape.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value linear,
                                             llvm::ArrayRef<int64_t> shape);
  /// The chunk of `width` columns from `base` on.
  Chunk chunk(mlir::Value base, int64_t width);

  mlir::Location loc;
  mlir::OpBuilder builder;
  ElementEmitter emitter;
  mlir::gpu::GPUFuncOp func;

private:
  planir::KernelOp kernel;
  planir::YieldOp yield;
  llvm::DenseMap<mlir::Value, mlir::Value> arguments, scalarArguments;
  llvm::SmallVector<mlir::Value> outputs;
  mlir::Value scratchBuffer;
  int64_t teamThreads = 0; ///< 0: the block is one team.
  MappedLaunch mapped;
};

/// The elements that fill one access of the widest type among the largest
/// tensors of `kernel`, or a part of them that divides `columns` where there
/// are some. So the lanes of a warp access bytes without gaps in all of these.
int64_t widestChunk(planir::KernelOp kernel, int64_t columns = 0);

/// Writes a function of a kernel, named by `suffix`, and adds its launch on
/// `grid` to `mapped`, whose scratch memory it takes; `body` writes what its
/// threads do. When that fails, `mapped` has a reason.
mlir::LogicalResult
addLaunch(MappedKernel &mapped, planir::KernelOp kernel,
          mlir::gpu::GPUModuleOp module, FrameOptions options,
          llvm::ArrayRef<int64_t> grid, int64_t threads,
          llvm::function_ref<mlir::LogicalResult(KernelFrame &)> body);

/// Replaces exp, tanh, erf ... in a mapped function by polynomials, as PTX has
/// no math library, and simplifies.
mlir::LogicalResult simplify(mlir::gpu::GPUFuncOp func);

/// Maps results that are made element by element, at the same places of all
/// tensors: those of one number of elements are a range of blocks.
MappedKernel mapFlat(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps sums over rows: columns to threads, rows to threads and blocks.
MappedKernel mapColumns(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps sums of all elements to one number each.
MappedKernel mapReduce(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps nn.square_sums.
MappedKernel mapBlockSums(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module);
/// Maps nn.embedding_grad: positions sorted by row, rows to blocks.
MappedKernel mapScatter(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps sums and factors of segments of flat tensors.
MappedKernel mapSegments(planir::KernelOp kernel,
                         mlir::gpu::GPUModuleOp module);
/// Maps chains of element-wise operations and reductions over the last
/// dimension: rows to blocks, the last dimension to threads.
mlir::FailureOr<MappedKernel> mapRows(planir::KernelOp kernel,
                                      mlir::gpu::GPUModuleOp module);
/// Maps a matrix product and the element-wise operations after it: bf16 to
/// tensor cores, f32 to FMA. Reports a kernel that holds no such product.
mlir::FailureOr<MappedKernel> mapGemm(planir::KernelOp kernel,
                                      mlir::gpu::GPUModuleOp module,
                                      const Chip &chip);
/// Maps nn.attention, or its gradient, to blocks of queries or keys.
MappedKernel mapAttention(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H
