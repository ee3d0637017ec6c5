//===- PackedGemm.h - Products with packed weights for x86-64 --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// C = A * B for few rows of A and a B that is packed as nn.packed_linear says,
// or several such products of the same A.
// B is read once, in several streams a thread, and unpacked in registers. The
// sum that makes an element of C runs along K, in one order whatever the number
// of rows and threads: a row's results are the same bits in every batch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H

#include "heddle/Codegen/CPU/Gemm.h"
#include "heddle/Codegen/CPU/WorkShares.h"
#include <functional>

namespace heddle::cpu {

/// What products with a packed B and the same A share. All sizes are static.
struct PackedGemmSpec {
  int64_t m = 0, k = 0;
  mlir::Type aType;     ///< f32 or bf16.
  int64_t bits = 0;     ///< Of a value of B: 32, 16, 8, 4.
  int64_t groups = 0;   ///< That K is cut into; 0: B is of floats.
  mlir::Type scaleType; ///< Of scales and zeros; f32, bf16 or f16.
  /// So many panels of a part, from its first on, are one thread's, but for the
  /// last ones.
  int64_t panelsTogether = 1;
  /// Of a row of A, in each group, the elements that are rounded to codes of 8
  /// bits with one scale; 0: rows are what they are.
  int64_t inputBlock = 0;
  int64_t products = 1; ///< At most so many make a part.
};

/// Where a B stands. Each is an !llvm.ptr; `scales` and `zeros` may be null.
struct PackedWeight {
  mlir::Value packedWords, scales, zeros;
};

/// As EpilogueFn, of one vector of each product of a part.
using PackedEpilogueFn =
    std::function<mlir::Value(mlir::ValueRange sums, mlir::Value row,
                              mlir::Value column, mlir::Value mask)>;

/// What is done with rows of C that a thread has made, as often as it has:
/// `count` of them from `first` on, in columns `begin` to `end`, which may be
/// none.
using PackedFinishFn = std::function<void(mlir::Value first, mlir::Value count,
                                          mlir::Value begin, mlir::Value end)>;

/// The address of a row of A, of K elements; the code that is emitted may make
/// them first.
using PackedRowFn = std::function<mlir::Value(mlir::Value row)>;

/// Products whose elements are made together, since the epilogue makes one
/// element of C of an element of each. Without an epilogue there is one
/// product.
struct FusedProducts {
  int64_t n = 0; ///< Columns of each B, and of C.
  llvm::SmallVector<PackedWeight, 2> weights;
  mlir::Type cType; ///< f32 or bf16.
  mlir::Value c;    ///< An !llvm.ptr.
  PackedEpilogueFn epilogue;
  PackedFinishFn finish; ///< May be null.
};

/// Bytes of scratch that each thread needs.
int64_t packedGemmScratchBytes(const PackedGemmSpec &spec,
                               const CpuTarget &target);

/// Emits what one thread does of all parts, as emitGemm does. `scratch` is of
/// type !llvm.ptr.
void emitPackedGemm(LoopBuilder &builder, const PackedGemmSpec &spec,
                    const CpuTarget &target, PackedRowFn rowOf,
                    mlir::Value scratch, llvm::ArrayRef<FusedProducts> parts,
                    const LaunchThread &self);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
