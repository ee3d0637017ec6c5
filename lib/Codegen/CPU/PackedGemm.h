//===- PackedGemm.h - Products with packed weights for x86-64 --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits C = A * B for few rows of A and a packed or quantized B
// (nn.packed_linear), or several such products of the same A. Each thread takes
// some columns of B. It reads several panels of B at the same time, each
// element once, and unpacks it in registers. The order of the sum over K does
// not depend on the numbers of rows and threads, so a row's result has the same
// bits in every batch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H

#include "heddle/Codegen/CPU/Gemm.h"
#include "heddle/Codegen/CPU/WorkShares.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include <functional>

namespace heddle::cpu {

/// Outputs of a panel in the layout of packed weights that kernels for x86-64
/// read.
constexpr int64_t panelWidth =
    plan::PackedBlock(plan::PackedLayout::Panels).outputs;

/// The properties that products of the same A share. All sizes are static.
struct PackedGemmSpec {
  int64_t m = 0, k = 0;
  mlir::Type aType;     ///< A compute type.
  int64_t bits = 0;     ///< Bits of a value of B: 32, 16, 8 or 4.
  int64_t groups = 0;   ///< Quantization groups along K; 0: B has floats.
  mlir::Type floatType; ///< Type of B's floats; null if B has codes.
  mlir::Type scaleType; ///< Type of scales and zeros: f32, bf16 or f16.
  /// The number of panels in a unit of work. Units are distributed over
  /// threads. A unit has whole attention heads if operations on heads follow
  /// the products.
  int64_t panelsTogether = 1;
  /// The number of elements of A that share a scale if A is rounded to int8
  /// (nn.packed_linear); 0: A is not rounded.
  int64_t inputBlock = 0;
  int64_t products = 1; ///< The largest number of products in FusedProducts.
};

/// The addresses (!llvm.ptr) of a packed or quantized weight; `scales` and
/// `zeros` may be null.
struct PackedWeight {
  mlir::Value packedWords, scales, zeros;
};

/// Like EpilogueFn in Gemm.h, but gets one vector of elements of each of the
/// fused products.
using PackedEpilogueFn =
    std::function<mlir::Value(mlir::ValueRange sums, mlir::Value row,
                              mlir::Value column, mlir::Value mask)>;

/// Emits operations on elements of C that a thread has just computed. The
/// elements are in rows `first` to `first` + `count` and columns `begin` to
/// `end` (exclusive). The range of columns may be empty.
using PackedFinishFn = std::function<void(mlir::Value first, mlir::Value count,
                                          mlir::Value begin, mlir::Value end)>;

/// Emits the address of row `row` of A. The emitted code may compute the row
/// first. A row has K elements.
using PackedRowFn = std::function<mlir::Value(mlir::Value row)>;

/// Products that are computed together because the epilogue computes an element
/// of C from one element of each, as in a gated MLP. Without an epilogue there
/// is one product.
struct FusedProducts {
  int64_t n = 0; ///< The number of columns of each B and of C.
  llvm::SmallVector<PackedWeight, 2> weights;
  mlir::Type cType; ///< A compute type.
  mlir::Value c;    ///< The address of C, an !llvm.ptr.
  PackedEpilogueFn epilogue;
  PackedFinishFn finish; ///< Operations that follow; may be null.
};

/// The bytes of scratch memory that each thread needs.
int64_t packedGemmScratchBytes(const PackedGemmSpec &spec,
                               const CpuTarget &target);

/// Emits the work of thread `self` for all products in `parts`. `scratch` is
/// the thread's scratch memory, an !llvm.ptr.
void emitPackedGemm(LoopBuilder &builder, const PackedGemmSpec &spec,
                    const CpuTarget &target, PackedRowFn rowOf,
                    mlir::Value scratch, llvm::ArrayRef<FusedProducts> parts,
                    const LaunchThread &self);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
