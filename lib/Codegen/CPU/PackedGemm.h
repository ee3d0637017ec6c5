//===- PackedGemm.h - Products with packed weights for x86-64 --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// C = A * B for few rows of A and a B that is packed as nn.packed_linear says.
// B is read once, in several streams a thread, and unpacked in registers. The
// sum that makes an element of C runs along K, in one order whatever the number
// of rows and threads: a row's results are the same bits in every batch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H

#include "LoopBuilder.h"
#include "heddle/Codegen/CPU/Gemm.h"

namespace heddle::cpu {

/// A product with a packed B. All sizes are static.
struct PackedGemmSpec {
  int64_t m = 0, n = 0, k = 0;
  mlir::Type aType, cType; ///< f32 or bf16 each.
  int64_t bits = 0;        ///< Of a value of B: 32, 16, 8, 4.
  int64_t groups = 0;      ///< That K is cut into; 0: B is of floats.
  mlir::Type scaleType;    ///< Of scales and zeros; f32, bf16 or f16.
};

/// Where its operands stand. Each is an !llvm.ptr; `scales` and `zeros` may be
/// null.
struct PackedGemmOperands {
  mlir::Value a, words, scales, zeros, c, scratch;
};

/// Bytes of scratch that each thread needs.
int64_t packedGemmScratchBytes(const PackedGemmSpec &spec);

/// Emits the part of one thread, as emitGemm does.
void emitPackedGemm(LoopBuilder &builder, const PackedGemmSpec &spec,
                    const CpuTarget &target, const PackedGemmOperands &operands,
                    mlir::Value thread, mlir::Value threads,
                    EpilogueFn epilogue);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMM_H
