//===- KernelFrame.h - The gpu.func of one plan.kernel ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes the gpu.func of a plan.kernel. The files Map*.cpp fill it with code,
// each for one kind of kernel; their functions are declared here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H
#define HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H

#include "ElementEmitter.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <memory>

namespace heddle::gpu {

/// Lanes of a warp.
constexpr int64_t warpSize = 32;

/// Options of one function of a kernel.
struct FrameOptions {
  bool flat = false; ///< Every buffer is flat: it has one dimension.
  /// The bytes of the kernel's scratch memory. With 0, the function has no
  /// argument for scratch memory. All functions of a kernel have the same
  /// value.
  int64_t scratchBytes = 0;
  std::string suffix; ///< Appended to the kernel's name, for all functions but
                      ///< the first.
};

/// A function of a kernel that is being written. Its arguments are, in this
/// order: the tensor arguments of the plan.kernel as memrefs, the results that
/// do not overwrite an argument, the scratch memory, and the kernel's index
/// arguments as i64.
class KernelFrame {
public:
  /// Starts the function inside of `module`. The body of `kernel` must be
  /// linalg on tensors (lowerBodyToLinalg).
  KernelFrame(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
              const FrameOptions &options);

  /// Emits the operations of the body that compute scalars. On failure,
  /// `emitter.reason` says why.
  mlir::LogicalResult emitScalars();

  /// The buffer of the kernel's result `i`.
  mlir::Value outputBuffer(unsigned i) const { return outputs[i]; }
  mlir::Value yielded(unsigned i) const { return yield->getOperand(i); }
  unsigned numOutputs() const { return yield->getNumOperands(); }
  /// The indices of all results of the kernel.
  llvm::SmallVector<unsigned> allOutputs() const {
    return llvm::to_vector(llvm::seq<unsigned>(0, numOutputs()));
  }
  /// The buffer of an argument of the kernel; null for other values.
  mlir::Value argumentBuffer(mlir::Value argument) const;
  /// The value of an index argument of the kernel, as an i64.
  mlir::Value argumentScalar(mlir::Value argument) const {
    return scalarArguments.lookup(argument);
  }

  /// Allocates workgroup memory, aligned to 16 bytes.
  mlir::Value addWorkgroup(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// A view of the scratch memory, beginning at byte `offset`.
  mlir::Value scratch(int64_t offset, llvm::ArrayRef<int64_t> shape,
                      mlir::Type element);
  /// Ends the function: sets its grid and block sizes, and records its launch.
  void finish(llvm::ArrayRef<int64_t> grid, int64_t threads,
              int64_t sharedBytes = 0);
  const MappedLaunch &launch() const { return mapped; }

  /// Stores `elements` as one vector. The last of `indices` is the column of
  /// the first element. `elements` may also be a single vector, which is stored
  /// as it is.
  void store(llvm::ArrayRef<mlir::Value> elements, mlir::Value buffer,
             llvm::ArrayRef<mlir::Value> indices);

  mlir::Value constant(int64_t value);
  /// The index of this thread in its block. Between the calls of `beginTeams`
  /// and `endTeams`, it is instead the index in the thread's team, a group of
  /// adjacent threads of the block.
  mlir::Value threadId();
  /// Divides the block into teams of `threads` adjacent threads, until
  /// `endTeams` is called. Returns the index of this thread's team.
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
  /// Returns the indices of the element with the linear index `linear` in a
  /// row-major tensor of this shape.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value linear,
                                             llvm::ArrayRef<int64_t> shape);
  /// Returns the chunk of `width` columns from `base` on. A thread handles the
  /// adjacent columns of a chunk together.
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
  int64_t teamThreads = 0; ///< Threads of a team; 0: the block is one team.
  MappedLaunch mapped;
};

/// Emits an scf.if, and inserts code into it as long as this object lives.
/// `Code` is a KernelFrame or a ThreadCode.
struct InsideIf {
  template <typename Code>
  InsideIf(Code &code, mlir::Value condition) : guard(code.builder) {
    auto branch =
        code.builder.template create<mlir::scf::IfOp>(code.loc, condition);
    code.builder.setInsertionPointToStart(branch.thenBlock());
  }

  mlir::OpBuilder::InsertionGuard guard;
};

/// Returns the width of a chunk: the number of adjacent elements that a thread
/// handles together. One access holds a chunk of the kernel's largest tensor.
/// If several tensors are the largest, those of the highest rank count: next to
/// a single row, the weight of a norm counts no more than next to many rows, so
/// that the row is summed in the same order. Of these tensors, the one with the
/// widest elements counts: the lanes of a warp then access consecutive bytes of
/// each of them.
/// If `columns` is given, the width is halved until it divides `columns`.
int64_t widestChunk(planir::KernelOp kernel, int64_t columns = 0);

/// Writes a function of `kernel`, and adds its launch on `grid` to `mapped`.
/// The function's name is the kernel's name and `options.suffix`. The function
/// gets scratch memory of the size that `mapped` states. `body` emits the code
/// of a thread. On failure, `mapped.reason` is set.
mlir::LogicalResult
addLaunch(MappedKernel &mapped, planir::KernelOp kernel,
          mlir::gpu::GPUModuleOp module, FrameOptions options,
          llvm::ArrayRef<int64_t> grid, int64_t threads,
          llvm::function_ref<mlir::LogicalResult(KernelFrame &)> body);

/// Replaces exp, tanh, erf and similar functions by polynomials, since PTX has
/// no math library. Also folds constants.
mlir::LogicalResult simplify(mlir::gpu::GPUFuncOp func);

/// Maps element-wise kernels. If results have different lengths, the results of
/// each length get their own range of blocks.
MappedKernel mapFlat(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps sums over rows: columns are divided among threads, rows among threads
/// and blocks.
MappedKernel mapColumns(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps reductions of all elements of a tensor to one value.
MappedKernel mapReduce(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps nn.square_sums.
MappedKernel mapBlockSums(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module);
/// Maps nn.embedding_grad: sorts the positions of tokens by the row of the
/// embedding table that they add to, and divides the rows among blocks.
MappedKernel mapScatter(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps nn.segment_sums, which sums the squares of each segment, and
/// nn.scale_segments, which multiplies each segment by a factor. A segment is
/// the range of one tensor in the flat tensor of its bucket.
MappedKernel mapSegments(planir::KernelOp kernel,
                         mlir::gpu::GPUModuleOp module);
/// Maps the operations of NNGroupOps.td: weights quantized in training.
MappedKernel mapGroups(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps the operations of NNSignOps.td: averages in one bit for each element.
MappedKernel mapSigns(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module);
/// Maps chains of element-wise operations and reductions over the last
/// dimension: rows are divided among blocks, columns among threads.
mlir::FailureOr<MappedKernel> mapRows(planir::KernelOp kernel,
                                      mlir::gpu::GPUModuleOp module);
/// Maps a matrix product and the element-wise operations after it. The types of
/// the operands and --matmul decide which unit multiplies (MultiplyUnit.h).
/// Reports an error if the kernel holds no such product.
mlir::FailureOr<MappedKernel> mapGemm(planir::KernelOp kernel,
                                      mlir::gpu::GPUModuleOp module,
                                      const Chip &chip);
/// Maps nn.attention or its gradient. Each block handles some of the queries or
/// of the keys of one head.
MappedKernel mapAttention(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module, const Chip &chip);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_KERNELFRAME_H
