//===- GemmEmitter.h - Emits one matrix product -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_GEMMEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_GEMMEMITTER_H

#include "GemmBlocking.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Operand A or B of a product and how it is packed. The "outer" dimension is
/// the one that is not K: M for A, N for B.
struct GemmOperand {
  mlir::Value pointer;
  mlir::Type type;
  int64_t stride;   ///< The leading dimension, in elements.
  bool kContiguous; ///< Stored rows run along K.
  int64_t outer;    ///< Size of the outer dimension.
  int64_t width;    ///< Outer elements in a packed micro-panel.
  bool mayOverhang; ///< Some micro-panel reaches beyond `outer`.
  bool direct;      ///< Micro-kernels read the operand itself, not a copy.

  int64_t elementBytes() const { return dist::byteSize(type); }
};

/// A block of K: its first index and its length, both i64.
struct KRange {
  mlir::Value begin, length;
};

/// A micro-panel as a micro-kernel reads it. A word is one f32 or two bf16 that
/// are adjacent along K. Word `k` of row `i` of A, or of column `i` of B, is at
/// `pointer` + `k` * wordStride + `i` * outerStride, in bytes; `i` counts from
/// the beginning of the micro-panel. The exception is A for AMX, whose
/// micro-kernel takes 16 words in a step: there wordStride is the distance
/// between two steps.
struct MicroPanel {
  mlir::Value pointer;
  int64_t wordStride, outerStride;
};

/// How a micro-kernel prefetches the micro-panel that will be packed next: each
/// step of the micro-kernel prefetches one cache line of it.
struct Prefetch {
  mlir::Value source;    ///< The address of the micro-panel's first element.
  mlir::Value firstStep; ///< The first cache line that this kernel prefetches.
  mlir::Value steps;     ///< How many cache lines each micro-kernel prefetches.
};

/// Emits one matrix product; see Gemm.h.
class GemmEmitter {
public:
  GemmEmitter(LoopBuilder &builder, const GemmSpec &spec,
              const CpuTarget &target, EpilogueFn epilogue, InitFn init);

  void emit(mlir::Value a, mlir::Value b, mlir::Value c, mlir::Value scratch,
            mlir::Value thread, mlir::Value threads);

private:
  /// A half-open range of row blocks or panels.
  struct Range {
    mlir::Value begin, end;
  };

  /// Called with a vector of sums, the row and column in C of its first
  /// element, and the mask of lanes that are inside C.
  using VectorBody = llvm::function_ref<void(
      mlir::Value sums, mlir::Value row, mlir::Value column, mlir::Value mask)>;

  // Gemm.cpp: partition and loops.
  std::pair<Range, Range> partition(mlir::Value thread, mlir::Value threads);
  void emitBlock(Range stream, Range resident, KRange k, mlir::Value isFirstK,
                 mlir::Value isLastK);
  void emitStreamPanel(mlir::Value streamed, Range stream, Range resident,
                       KRange k, mlir::Value isFirstK, mlir::Value isLastK);
  mlir::Value residentPointer(mlir::Value index);
  mlir::Value firstRow(mlir::Value rowBlock);
  mlir::Value tilePointer(mlir::Value streamIndex, mlir::Value residentIndex);

  // Defined in GemmPack.cpp. `loadPanel` returns a micro-panel of an operand.
  // Unless micro-kernels read the operand itself, it first packs the
  // micro-panel into `buffer`.
  MicroPanel loadPanel(const GemmOperand &operand, mlir::Value index, KRange k,
                       mlir::Value buffer);
  MicroPanel packedAt(const GemmOperand &operand, mlir::Value index, KRange k,
                      mlir::Value buffer);
  mlir::Value sourceOf(const GemmOperand &operand, mlir::Value outerBegin,
                       KRange k);
  mlir::Value prefetchSteps(const GemmOperand &operand, mlir::Value kLength);
  void prefetchStep(const GemmOperand &operand, mlir::Value source,
                    mlir::Value step);
  void pack(const GemmOperand &operand, mlir::Value outerBegin, KRange k,
            mlir::Value to);
  void packRowsOfK(const GemmOperand &operand, mlir::Value outerBegin, KRange k,
                   mlir::Value to);
  void packTransposed(const GemmOperand &operand, mlir::Value outerBegin,
                      KRange k, mlir::Value to);
  llvm::SmallVector<mlir::Value> rowPointers(const GemmOperand &operand,
                                             mlir::Value outerBegin,
                                             mlir::Value kBegin, int64_t first,
                                             int64_t count);
  mlir::Value loadWords(mlir::Type type, mlir::Value pointer, mlir::Value mask);
  llvm::SmallVector<mlir::Value> loadSquare(mlir::Type type,
                                            llvm::ArrayRef<mlir::Value> sources,
                                            mlir::Value at, mlir::Value mask);
  mlir::Value shuffleQuarters(mlir::Value x, mlir::Value y,
                              llvm::ArrayRef<int64_t> pick);
  llvm::SmallVector<mlir::Value> transpose(llvm::SmallVector<mlir::Value> rows);
  mlir::Value firstOuter(const GemmOperand &operand, mlir::Value index);
  mlir::Value words(mlir::Value kLength);

  // Defined in GemmFewRows.cpp, for products with few rows of A. The emitted
  // code reads B where it is, without packing it.
  void emitFewRows(Range panels);
  void copyRowsOfA(mlir::Value to);
  void emitPanels(mlir::Value panel, int64_t count, MicroPanel panelA);
  LoopBuilder::Values sumRowsOfB(mlir::Value panel, int64_t count,
                                 MicroPanel panelA, LoopBuilder::Values sums);
  llvm::SmallVector<mlir::Value> loadRowsOfB(mlir::Value from, bool hasSecond,
                                             llvm::ArrayRef<mlir::Value> masks);
  LoopBuilder::Values sumColumnsOfB(mlir::Value panel, MicroPanel panelA,
                                    LoopBuilder::Values sums);
  LoopBuilder::Values sumColumnsOfVector(mlir::Value panel, int64_t vector,
                                         MicroPanel panelA,
                                         mlir::ValueRange sums);

  // GemmAmx.cpp: bf16 on AMX tiles.
  MicroPanel amxPanelA(mlir::Value rowBlock, KRange k, mlir::Value buffer);
  void packAmxRows(mlir::Value firstRow, KRange k, mlir::Value to);
  void packAmxColumns(mlir::Value firstRow, KRange k, mlir::Value to);
  void emitAmxKernel(MicroPanel panelA, MicroPanel panelB, mlir::Value kLength,
                     const Prefetch &prefetch, mlir::Value tile);

  // Defined in GemmKernel.cpp: the micro-kernel, which computes one tile of C.

  /// Whether a micro-kernel starts with the sums in the memory of its tile,
  /// rather than with zeros.
  bool loadsSums() const { return blocking.kBlocks > 1 || init; }
  void emitTile(mlir::Value rowBlock, mlir::Value panel, MicroPanel panelA,
                MicroPanel panelB, mlir::Value kLength,
                const Prefetch &prefetch, mlir::Value tile,
                mlir::Value isFirstK);
  void beginTile(mlir::Value rowBlock, mlir::Value panel, mlir::Value tile);
  void emitMicroKernel(int64_t rows, MicroPanel panelA, MicroPanel panelB,
                       mlir::Value kLength, const Prefetch &prefetch,
                       mlir::Value tile);
  LoopBuilder::Values multiplyStep(mlir::Value word, MicroPanel panelA,
                                   MicroPanel panelB, mlir::ValueRange sums);
  LoopBuilder::Values multiplyWord(mlir::Value left, int64_t outerStride,
                                   llvm::ArrayRef<mlir::Value> columns,
                                   mlir::ValueRange sums);
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value acc);
  void forVectors(mlir::Value rowBlock, mlir::Value panel, mlir::Value tile,
                  VectorBody body);
  void emitStore(mlir::Value rowBlock, mlir::Value panel, mlir::Value tile);
  void storeVector(mlir::Value acc, mlir::Value row, mlir::Value column,
                   mlir::Value mask);

  const GemmOperand &residentOperand() const {
    return blocking.residentA ? operandA : operandB;
  }
  const GemmOperand &streamOperand() const {
    return blocking.residentA ? operandB : operandA;
  }

  LoopBuilder &b;
  const GemmSpec &spec;
  const GemmBlocking blocking;
  bool emulatesAmx;
  EpilogueFn epilogue;
  InitFn init;
  mlir::VectorType vectorType; ///< A vector of f32.
  GemmOperand operandA, operandB;
  mlir::Value c, tiles, residentBuffer, streamBuffer;
  int64_t ldc;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_GEMMEMITTER_H
