//===- GemmBlocking.h - Blocking of matrix products -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_GEMMBLOCKING_H
#define HEDDLE_LIB_CODEGEN_CPU_GEMMBLOCKING_H

#include "heddle/Codegen/CPU/Gemm.h"

namespace heddle::cpu {

/// How one product is cut into blocks and micro-kernels, as in BLIS (Van Zee
/// and van de Geijn, ACM TOMS 2015). All sizes are static.
///
/// C is cut into row blocks of up to `mr` rows and column panels of `nr`
/// columns. One micro-kernel computes one tile: a row block times a panel. The
/// rows are spread evenly: the first `rowExtra` blocks have `rowBase` + 1 rows,
/// the others `rowBase`, so that no micro-kernel is much smaller than the
/// registers allow. K is cut into `kBlocks` blocks of `kBlock` values.
///
/// One operand is resident: `residentBlock` of its micro-panels are packed and
/// stay in a cache while the micro-panels of the other operand are streamed.
///
/// If A has few rows, there is one row block. Packed panels of B would not be
/// reused, so B is read where it is, without packing, and K is not cut.
struct GemmBlocking {
  GemmBlocking(const GemmSpec &spec, const CpuTarget &target);

  bool fewRows;
  bool dot;         ///< 32-bit words hold two elements, adjacent along K.
  bool amx;         ///< AMX tiles compute the products.
  int64_t wordStep; ///< Words of K in one step of a micro-kernel.
  int64_t lanes;    ///< Words in one vector.
  int64_t mr, nr;   ///< Rows and columns of the largest micro-kernel.
  int64_t rowBlocks, rowBase, rowExtra;
  int64_t panels;
  int64_t kBlocks, kBlock;
  bool residentA;
  bool directA; ///< A is read where it is, without packing.
  int64_t residentBlock;
  int64_t streamBlock; ///< Micro-panels streamed between two K blocks.
  /// The number of panels, a power of two, that are computed together if A has
  /// few rows. With more panels, more adjacent elements of each row of B are
  /// read, and more independent sums hide the latency of multiply-add.
  int64_t panelsTogether = 1;

  // Sizes and offsets in a thread's scratch memory, in bytes.
  int64_t tileBytes, panelBytesA, panelBytesB;
  int64_t tilesAt = 0, residentAt, streamAt, scratchBytes;

  /// The number of values of K in one packed word.
  int64_t perWord() const { return dot ? 2 : 1; }
  /// If A has few rows, it is copied to scratch memory. This is the size, in
  /// bytes, of a row of the copy.
  int64_t copiedRowBytes() const { return kBlock / perWord() * 4; }
  int64_t residentPanelBytes() const {
    return residentA ? panelBytesA : panelBytesB;
  }

private:
  void planFewRows(const GemmSpec &spec, int64_t mostSums);
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_GEMMBLOCKING_H
