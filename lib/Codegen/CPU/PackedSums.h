//===- PackedSums.h - Sums of packed products -------------------*- C++ -*-===//
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

/// Where a thread's scratch has what.
struct PackedScratch {
  PackedScratch(const PackedGemmSpec &spec, const CpuTarget &target);

  int64_t blockRows;        ///< Of A, that are made ready at once.
  int64_t rowBytes;         ///< Of a row that was made ready.
  int64_t sumsAt, sumBytes; ///< Of the groups of a row.
  int64_t tilesAt, bytes;
};

/// What becomes of a vector of sums, with vectors and with tiles alike.
class PackedSums {
public:
  PackedSums(LoopBuilder &builder, const PackedGemmSpec &spec,
             const PackedScratch &scratch, mlir::Value memory, int64_t lanes)
      : b(builder), spec(spec), scratch(scratch), memory(memory), lanes(lanes) {
  }

  /// Row `local` of those that were made ready; there is one, for tiles.
  mlir::Value row(mlir::Value local);
  /// Where the sum of a group of such a row is.
  mlir::Value groupSum(mlir::Value local, mlir::Value group);

  /// Of the columns of a vector, in f32.
  struct Scale {
    mlir::Value scale;
    mlir::Value minusZero; ///< Null without zeros.
  };
  Scale scaleOf(const PackedWeight &weight, mlir::Value panel,
                mlir::Value group, int64_t vector);
  /// total + scale * (sum - zero * (sum of the group's x)).
  mlir::Value scaled(Scale scale, mlir::Value sum, mlir::Value local,
                     mlir::Value group, mlir::Value total);
  /// Makes of a sum of each product of the part what the epilogue says, and
  /// writes it.
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
