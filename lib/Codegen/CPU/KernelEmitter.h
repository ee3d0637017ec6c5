//===- KernelEmitter.h - The function of one plan.kernel --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_KERNELEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_KERNELEMITTER_H

#include "TensorEvaluator.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/CPU/WorkShares.h"

namespace heddle::cpu {

/// What the generators share: the kernel, whose body is linalg by now, and the
/// function that is being made of it.
struct KernelEmitter {
  KernelEmitter(planir::KernelOp kernel, LoopBuilder &b,
                const CpuTarget &target)
      : kernel(kernel), b(b), target(target), evaluator(b, target) {}

  planir::KernelOp kernel;
  LoopBuilder &b;
  const CpuTarget &target;
  TensorEvaluator evaluator;
  LaunchThread self;
  mlir::Value scratch; ///< The thread's.
  /// Where each result is written.
  llvm::SmallVector<mlir::Value> results;
  /// Bytes of scratch that each thread needs; the generator sets it.
  int64_t scratchBytes = 0;

  mlir::ValueRange yields() {
    return kernel.getBody().front().getTerminator()->getOperands();
  }
  /// The address of an argument, or of what was placed; null for an index.
  mlir::Value pointerOf(mlir::Value value) { return pointers.lookup(value); }
  /// A value of the body is in memory at `pointer`.
  void place(mlir::Value value, mlir::Value pointer) {
    pointers[value] = pointer;
  }
  /// Where a value that the kernel yields is written; null for others.
  mlir::Value resultPointer(mlir::Value value);
  /// Reports a value that is several results: for generators that write what
  /// they make to one place.
  mlir::LogicalResult verifyYieldedOnce();
  /// So many bytes of the thread's scratch, behind what is taken already.
  mlir::Value reserve(int64_t bytes);
  /// `units` pieces of work split evenly: what this thread does.
  std::pair<mlir::Value, mlir::Value> share(int64_t units) {
    return self.share(b, b.constant(units));
  }

  using ColumnBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value column, mlir::ValueRange carried, unsigned copy)>;
  /// A loop over `extent` columns in steps of one vector. The body is made
  /// `copies` times, each carrying its own `perCopy` values, all of which start
  /// as `init`. Returns the values carried by all copies, copy by copy. The
  /// last, partial vector runs in copy 0 under a mask; carried values keep
  /// theirs where the mask is off.
  llvm::SmallVector<mlir::Value> forColumns(int64_t extent, unsigned copies,
                                            mlir::ValueRange init,
                                            ColumnBody body);

  /// Loads the operands of the function: `refs` and `scalars` of the ABI.
  void bindArguments(mlir::Value refs, mlir::Value scalarArgs);

  /// The end of a generator: reports what could not be made into code.
  mlir::LogicalResult finish();

private:
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;
};

/// Emits what makes a row of each of some tensors: row number `row`, at `to`.
using RowEmitter =
    std::function<void(mlir::Value row, llvm::ArrayRef<mlir::Value> to)>;

/// For tensors of the kernel that are computed row by row, with the bits that
/// the generator `rows` gives them. Reports what goes over something else.
mlir::FailureOr<RowEmitter> rowEmitterOf(KernelEmitter &k,
                                         mlir::ValueRange tensors);

/// The generators. Each reports what it cannot do on the kernel.
mlir::LogicalResult emitRowsKernel(KernelEmitter &k);
mlir::LogicalResult emitColumnsKernel(KernelEmitter &k);
mlir::LogicalResult emitReduceKernel(KernelEmitter &k);
mlir::LogicalResult emitBlockSumsKernel(KernelEmitter &k);
/// Sums, or factors, of the members of a flat tensor.
mlir::LogicalResult emitSegmentsKernel(KernelEmitter &k);
mlir::LogicalResult emitScatterKernel(KernelEmitter &k);
mlir::LogicalResult emitGemmKernel(KernelEmitter &k);
mlir::LogicalResult emitAttentionKernel(KernelEmitter &k);
/// Writes of a cache of pages, in place.
mlir::LogicalResult emitCacheKernel(KernelEmitter &k);
/// What of such a write comes from columns of operand number `tensor` of q, k
/// and v: of `count` tokens from `first` on, those heads whose columns are from
/// `begin` to `end`. q, k and v are placed.
void emitCacheColumns(KernelEmitter &k, nn::CacheWriteOp write, int64_t tensor,
                      mlir::Value first, mlir::Value count, mlir::Value begin,
                      mlir::Value end);
/// Reports a cache that is not written in place.
mlir::LogicalResult verifyInPlace(KernelEmitter &k, nn::CacheWriteOp write);
/// Attention over such a cache.
mlir::LogicalResult emitPagedAttention(KernelEmitter &k,
                                       nn::PagedAttentionOp op);
mlir::LogicalResult emitPagedAttentionJoin(KernelEmitter &k,
                                           nn::PagedAttentionJoinOp op);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_KERNELEMITTER_H
