//===- PackedSums.h - Dequantizes and stores sums ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDSUMS_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDSUMS_H

#include "PackedGemm.h"

namespace heddle::cpu {

/// The layout of a thread's scratch memory, in bytes.
struct PackedScratch {
  PackedScratch(const PackedGemmSpec &spec, const CpuTarget &target);

  int64_t blockRows;        ///< Rows of A that are prepared together.
  int64_t rowBytes;         ///< Bytes of a prepared row.
  int64_t sumsAt, sumBytes; ///< Sums of the groups of a row, and their size.
  int64_t tilesAt, bytes;
};

/// Dequantizes sums (applies scales and zero points), applies the epilogue and
/// stores the result. The implementations with vectors and with AMX tiles share
/// it.
class PackedSums {
public:
  PackedSums(LoopBuilder &builder, const PackedGemmSpec &spec,
             const PackedScratch &scratch, mlir::Value memory, int64_t lanes)
      : b(builder), spec(spec), scratch(scratch), memory(memory), lanes(lanes) {
  }

  /// The address of row `local` of A in the form that is multiplied (a prepared
  /// row). With AMX tiles the scratch holds a single prepared row, because each
  /// row is copied into tiles before the next one is prepared.
  mlir::Value row(mlir::Value local);
  /// The address of the sum of the elements of A in group `group` of row
  /// `local`, one of the rows in scratch memory.
  mlir::Value groupSum(mlir::Value local, mlir::Value group);

  /// The scales and the negated zero points of the weight for one group and a
  /// vector of columns, in f32.
  struct Scale {
    mlir::Value scale;
    mlir::Value minusZero; ///< Null if the weight has no zero points.
  };
  Scale scaleOf(const PackedWeight &weight, mlir::Value panel,
                mlir::Value group, int64_t vector);
  /// Dequantizes the sum of a group and adds it to the total: total + scale *
  /// (sum - zero * s), where s is the sum of the elements of A in the group.
  mlir::Value scaled(Scale scale, mlir::Value sum, mlir::Value local,
                     mlir::Value group, mlir::Value total);
  /// Applies the epilogue to `sums` and stores the result to C at (`row`,
  /// `column`). `sums` has one vector of elements of each product.
  void store(const FusedProducts &part, mlir::ValueRange sums, mlir::Value row,
             mlir::Value column);

private:
  mlir::Value groupVector(mlir::Value pointer, mlir::Value panel,
                          mlir::Value group, int64_t vector);

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  const PackedScratch &scratch;
  mlir::Value memory;
  int64_t lanes;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDSUMS_H
