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

/// The state that all code generators use: the kernel, whose body has been
/// lowered to linalg, and the function that is being emitted for it.
struct KernelEmitter {
  KernelEmitter(planir::KernelOp kernel, LoopBuilder &b,
                const CpuTarget &target)
      : kernel(kernel), b(b), target(target), evaluator(b, target) {}

  planir::KernelOp kernel;
  LoopBuilder &b;
  const CpuTarget &target;
  TensorEvaluator evaluator;
  LaunchThread self;
  mlir::Value scratch; ///< The address of the thread's scratch memory.
  /// The address to which each result is written.
  llvm::SmallVector<mlir::Value> results;
  /// The bytes of scratch that each thread needs. The function that emits the
  /// kernel sets this number.
  int64_t scratchBytes = 0;

  mlir::ValueRange yields() {
    return kernel.getBody().front().getTerminator()->getOperands();
  }
  /// The address of `value`: an argument of the kernel that is a tensor, or a
  /// value that `setPointer` was called for. Null for all other values.
  mlir::Value pointerOf(mlir::Value value) { return pointers.lookup(value); }
  /// Records that `value`, a value of the kernel's body, is stored at
  /// `pointer`.
  void setPointer(mlir::Value value, mlir::Value pointer) {
    pointers[value] = pointer;
  }
  /// The address to which `value` is written if the kernel yields it; null for
  /// other values.
  mlir::Value resultPointer(mlir::Value value);
  /// Reports an error if the kernel yields a value twice. Generators that write
  /// each value to a single address call this function.
  mlir::LogicalResult verifyYieldedOnce();
  /// Reserves `bytes` bytes of the thread's scratch and returns their address,
  /// aligned to 64 bytes.
  mlir::Value reserve(int64_t bytes);
  /// Splits `units` units of work among the threads. Returns the begin and the
  /// end of the units of the thread that runs the emitted code.
  std::pair<mlir::Value, mlir::Value> share(int64_t units) {
    return self.share(b, b.constant(units));
  }

  /// The address of a constant array with these values. `name` is the end of
  /// its symbol, after the function's.
  mlir::Value makeTable(llvm::ArrayRef<int64_t> values, llvm::StringRef name);
  /// The sum of the squares of the elements `begin` to `end` of the flat tensor
  /// `input`, as f64. Both are multiples of `flatUnit`.
  mlir::Value sumOfSquares(mlir::Value input, mlir::Value begin,
                           mlir::Value end);
  /// Tensors begin at multiples of this number of elements in the flat tensor
  /// of a bucket.
  static constexpr int64_t flatUnit = 64;

  using ColumnBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value column, mlir::ValueRange carried, unsigned copy)>;
  /// Emits a loop over `extent` columns in steps of one vector, unrolled
  /// `copies` times. Each copy of the body has its own loop-carried values,
  /// which start as `init`. Returns the final values of all copies, those of
  /// copy 0 first. If `extent` is no multiple of the vector, copy 0 computes
  /// the last vector under a mask, and its loop-carried values do not change
  /// in lanes outside of the mask.
  llvm::SmallVector<mlir::Value> forColumns(int64_t extent, unsigned copies,
                                            mlir::ValueRange init,
                                            ColumnBody body);

  /// Loads the kernel's arguments from the function's arguments `refs` and
  /// `scalarArgs` (see the ABI at plan::Kernel).
  void bindArguments(mlir::Value refs, mlir::Value scalarArgs);

  /// Reports an error if `evaluator` could not emit some operation. Every
  /// function that emits a kernel calls `finish` last.
  mlir::LogicalResult finish();

private:
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;
};

/// Emits code that computes row number `row` of some tensors and writes each
/// tensor's row to the address in `to`.
using RowEmitter =
    std::function<void(mlir::Value row, llvm::ArrayRef<mlir::Value> to)>;

/// Returns a function that emits the computation of one row of each of
/// `tensors`, values of the kernel's body. The results have the same bits as
/// those of `emitRowsKernel`. Reports an error if a tensor is not computed row
/// by row.
mlir::FailureOr<RowEmitter> rowEmitterOf(KernelEmitter &k,
                                         mlir::ValueRange tensors);

// Each of these functions emits the code for one form of kernel. It reports an
// error on a kernel that it does not support.

mlir::LogicalResult emitRowsKernel(KernelEmitter &k);
mlir::LogicalResult emitColumnsKernel(KernelEmitter &k);
mlir::LogicalResult emitReduceKernel(KernelEmitter &k);
mlir::LogicalResult emitBlockSumsKernel(KernelEmitter &k);
/// nn.segment_sums, nn.segment_maxima and nn.scale_segments; others are left to
/// `emitGroupsKernel`.
mlir::LogicalResult emitSegmentsKernel(KernelEmitter &k);
/// nn.group_maxima, nn.group_sums and nn.fake_quantize.
mlir::LogicalResult emitGroupsKernel(KernelEmitter &k);
mlir::LogicalResult emitSignsKernel(KernelEmitter &k);
mlir::LogicalResult emitScatterKernel(KernelEmitter &k);
mlir::LogicalResult emitGemmKernel(KernelEmitter &k);
mlir::LogicalResult emitAttentionKernel(KernelEmitter &k);
/// nn.cache_write, in place.
mlir::LogicalResult emitCacheKernel(KernelEmitter &k);
/// Emits a part of the cache writes of a kernel that also computes q, k and v.
/// Writes the heads in columns `begin` to `end` of one operand of `write`, for
/// `count` tokens from `first` on. `tensor` is the operand's index: 0 for q, 1
/// for k and 2 for v; a packed tensor has index 0. The caller must have called
/// `setPointer` for q, k and v.
void emitCacheColumns(KernelEmitter &k, nn::CacheWriteOp write, int64_t tensor,
                      mlir::Value first, mlir::Value count, mlir::Value begin,
                      mlir::Value end);
/// Reports an error unless each result of `write` is in the memory of the
/// operand that it updates, a key-value cache.
mlir::LogicalResult verifyInPlace(KernelEmitter &k, nn::CacheWriteOp write);
/// nn.paged_attention.
mlir::LogicalResult emitPagedAttention(KernelEmitter &k,
                                       nn::PagedAttentionOp op);
/// nn.paged_attention_join.
mlir::LogicalResult emitPagedAttentionJoin(KernelEmitter &k,
                                           nn::PagedAttentionJoinOp op);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_KERNELEMITTER_H
