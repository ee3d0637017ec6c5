//===- Gemm.h - Matrix products for x86-64 ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits C = A * B as loops over micro-kernels, which read packed panels of A
// and B. If A has few rows, the micro-kernels read B where it is, not packed.
//
// Every thread computes its part of C alone. There is no barrier, the sum over
// K is never split across threads, and the result does not depend on the number
// of threads. The sum over K runs from the first index to the last: one index
// at a time, in pairs for bf16 with dot products, and in groups of 32 for many
// rows on AMX. So K can be split between two products, of which the second adds
// to the results of the first. The results have the same bits as those of a
// single product if the first product takes a whole number of pairs or groups.
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
  /// Element types, each a type in which models compute. Sums are f32. If the
  /// target has an instruction that multiplies pairs of these operands, they
  /// are multiplied as they are; otherwise narrow operands are widened to f32.
  mlir::Type aType, bType, cType;
  /// Leading dimensions, in elements; 0: rows have no padding.
  int64_t lda = 0, ldb = 0, ldc = 0;
  /// Computes C += A * B: the old value of C is added before the epilogue.
  bool accumulate = false;
};

/// Called on every vector of C before it is stored. `acc` is a vector of
/// `CpuTarget::lanes()` f32 at (`row`, `col`), (`row`, `col` + 1) ...; `row`
/// and `col` are of type index. `mask` is null if all lanes are inside C,
/// otherwise a vector of i1 that is true for the lanes inside. Returns the f32
/// vector to store. The function may also emit loads of other operands and
/// stores of further results.
using EpilogueFn = llvm::function_ref<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::Value acc, mlir::Value row,
    mlir::Value col, mlir::Value mask)>;

/// Called for every vector of C before its sum over K is computed. Returns the
/// f32 vector that the sum begins with.
using InitFn = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                              mlir::Value row, mlir::Value col,
                                              mlir::Value mask)>;

/// The bytes of scratch memory that each thread needs for `spec`.
int64_t gemmScratchBytes(const GemmSpec &spec, const CpuTarget &target);

/// Emits the product at the insertion point of `builder`, inside a function,
/// for thread `thread` of `threads` (index or i64). `a`, `b`, `c` and `scratch`
/// are memrefs or !llvm.ptr; `scratch` is the thread's scratch memory, aligned
/// to 64 bytes.
mlir::LogicalResult emitGemm(mlir::OpBuilder &builder, mlir::Location loc,
                             const GemmSpec &spec, const CpuTarget &target,
                             mlir::Value a, mlir::Value b, mlir::Value c,
                             mlir::Value scratch, mlir::Value thread,
                             mlir::Value threads, EpilogueFn epilogue = nullptr,
                             InitFn init = nullptr);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_GEMM_H
