//===- Gemm.h - Matrix products for x86-64 ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits C = A * B as loops over packed micro-kernels; for few rows of A, B is
// read where it stands. Every thread of the pool works alone on its part of C:
// there is no barrier, the sum over K is never split across threads, and the
// result does not depend on their number. K is summed from its first value to
// its last: one value after the other, bf16 with dot products in pairs, and
// many rows on AMX in groups of 32. So a sum that begins with one over earlier
// values has the bits of the sum over all, where whole groups are before.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_GEMM_H
#define HEDDLE_CODEGEN_CPU_GEMM_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace heddle::cpu {

/// One matrix product. All sizes are static.
struct GemmSpec {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false; ///< A is stored [K, M], otherwise [M, K].
  bool transB = false; ///< B is stored [N, K], otherwise [K, N].
  /// f32 or bf16 each. Two bf16 operands are multiplied as bf16 with f32 sums;
  /// otherwise a bf16 operand is widened to f32.
  mlir::Type aType, bType, cType;
  /// Elements from one stored row to the next; 0 means that rows are dense.
  int64_t lda = 0, ldb = 0, ldc = 0;
  /// C += A * B. What C held is added before the epilogue.
  bool accumulate = false;
};

/// Called on every vector of C before it is stored. `acc` is a vector of
/// `CpuTarget::lanes()` f32 at (`row`, `col`), (`row`, `col` + 1) ...; `row`
/// and `col` are of type index. `mask` is null when all lanes are inside C,
/// else a vector of i1 that says which ones are. Returns the f32 vector to
/// store; it may load other operands and store further results itself.
using EpilogueFn = llvm::function_ref<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::Value acc, mlir::Value row,
    mlir::Value col, mlir::Value mask)>;

/// Called for every vector of C before its sum is made. Returns the f32 vector
/// that the sum over K begins with.
using InitFn = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                              mlir::Value row, mlir::Value col,
                                              mlir::Value mask)>;

/// Bytes of scratch that each thread needs for `spec`.
int64_t gemmScratchBytes(const GemmSpec &spec, const CpuTarget &target);

/// Emits the product at the insertion point of `builder`, inside a function.
/// `a`, `b`, `c` and `scratch` are memrefs or !llvm.ptr; `scratch` is the
/// calling thread's own, aligned to 64 bytes. `thread` and `threads` are of
/// type index or i64.
mlir::LogicalResult emitGemm(mlir::OpBuilder &builder, mlir::Location loc,
                             const GemmSpec &spec, const CpuTarget &target,
                             mlir::Value a, mlir::Value b, mlir::Value c,
                             mlir::Value scratch, mlir::Value thread,
                             mlir::Value threads, EpilogueFn epilogue = nullptr,
                             InitFn init = nullptr);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_GEMM_H
