//===- GemmBlocking.h - How a matrix product is cut up --------*- C++ -*- ===//
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

/// How one product is cut into blocks and micro-kernels; all of it is static.
///
/// C is cut into row blocks of up to `mr` rows and column panels of `nr`
/// columns; one row block times one panel is a tile, made by one micro-kernel.
/// The rows are spread evenly: the first `rowExtra` blocks have `rowBase` + 1
/// rows, the others `rowBase`, so that no micro-kernel is much smaller than the
/// registers allow. K is cut into `kBlocks` blocks of `kBlock`.
///
/// One operand is resident: `residentBlock` micro-panels of it are packed and
/// reused while the micro-panels of the other one are streamed past them.
///
/// Few rows are one row block. Nothing would be reused, so B is read where it
/// stands, and K is not cut.
struct GemmBlocking {
  GemmBlocking(const GemmSpec &spec, const CpuTarget &target);

  bool fewRows;
  bool dot;         ///< 32-bit words hold two bf16 that follow each other in K.
  bool amx;         ///< The products are made by AMX tiles.
  int64_t wordStep; ///< Words that one step of a micro-kernel takes.
  int64_t lanes;    ///< Words in one vector.
  int64_t mr, nr;   ///< Largest micro-kernel.
  int64_t rowBlocks, rowBase, rowExtra;
  int64_t panels;
  int64_t kBlocks, kBlock;
  bool residentA;
  bool directA; ///< A is read where it stands: it needs no packing.
  int64_t residentBlock;
  int64_t streamBlock; ///< Micro-panels streamed between two K blocks.
  /// Panels of few rows, a power of two, that are read side by side: more of
  /// each stored row, and sums that do not wait for each other.
  int64_t panelsTogether = 1;

  // Layout of the scratch, in bytes.
  int64_t tileBytes, panelBytesA, panelBytesB;
  int64_t tilesAt = 0, residentAt, streamAt, scratchBytes;

  /// Values of K in one packed word.
  int64_t perWord() const { return dot ? 2 : 1; }
  /// Bytes of a row of A that is copied for few rows.
  int64_t copiedRowBytes() const { return kBlock / perWord() * 4; }
  int64_t residentPanelBytes() const {
    return residentA ? panelBytesA : panelBytesB;
  }

private:
  void planFewRows(const GemmSpec &spec, int64_t mostSums);
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_GEMMBLOCKING_H
