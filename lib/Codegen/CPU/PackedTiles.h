//===- PackedTiles.h - Packed products on AMX tiles -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile of B is read where a packed weight stands: its words are the pairs of
// bf16, or four codes of 8 bits, that a tile has for a column. Codes of 4 bits
// become bytes in scratch. Rows are whole numbers where weights are codes, as
// on vectors, so the sums have the same bits there. Pairs of bf16 are summed in
// the order of the tiles, which vectors do not have: all numbers of rows then
// are on tiles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDTILES_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDTILES_H

#include "AmxTiles.h"
#include "PackedNumbers.h"
#include "PackedSums.h"

namespace heddle::cpu {

class PackedTiles {
public:
  /// Whether tiles make the products. Where sums depend on that, it does not
  /// depend on the number of rows.
  static bool make(const PackedGemmSpec &spec, const CpuTarget &target);

  /// Where the scratch of the tiles has what.
  struct Layout {
    Layout(const PackedGemmSpec &spec, int64_t blockRows);
    int64_t quads;    ///< Rows of a tile of B: its words, or bytes by four.
    int64_t tileRows; ///< Of a tile of A.
    int64_t rows;     ///< Of A, in whole tiles.
    int64_t columns;  ///< Tiles of B side by side, at most.
    int64_t unpackedBytes; ///< Of one of these, in a block of numbers.
    int64_t totalsAt = 0, sumsAt, wholeAt, unpackedAt, configAt, bytes;
  };

  PackedTiles(LoopBuilder &builder, const PackedGemmSpec &spec,
              const CpuTarget &target, PackedWords &words,
              PackedNumbers &numbers, PackedSums &sums,
              const PackedScratch &scratch, mlir::Value memory);

  void configure();
  void release() { tiles.release(); }
  /// Makes `count` rows from `first` on, which were made ready, in panels
  /// `begin` to `end` of the part.
  void emit(const PackedPart &part, mlir::Value first, int64_t count,
            mlir::Value begin, mlir::Value end);

private:
  /// A tile of B, over all of K: half of a panel's columns.
  struct Column {
    mlir::Value panel;
    const PackedWeight *weight;
    int64_t vector;
    mlir::Value words; ///< Of the panel's half, from the first on.
  };
  /// Part of K: blocks of numbers, or what stays in the first cache.
  struct Piece {
    mlir::Value word, steps;  ///< The first word; how many tiles along K.
    mlir::Value group, block; ///< Of numbers; the block among all of a row's.
  };

  void emitPanels(llvm::ArrayRef<mlir::Value> panels);
  void emitPairs();
  void emitGroup(mlir::Value group);
  void emitBlock(mlir::Value group, mlir::Value block, int64_t length);
  void unpack(mlir::Value word, int64_t count);
  void emitRows(const Piece &piece);
  void emitRowTiles(const Piece &piece, mlir::Value tile, int64_t rowTiles);
  void multiply(const Piece &piece, mlir::Value tile, int64_t rowTiles,
                int64_t firstColumn, int64_t count);
  void multiplyStep(const Piece &piece, mlir::Value tile, mlir::Value step,
                    int64_t left, int64_t firstColumn, int64_t count);
  void fetch(mlir::Value at, mlir::Value tile);
  void addNumbers(const Piece &piece, mlir::Value tile, int64_t rowTiles,
                  int64_t firstColumn, int64_t count);
  void scaleGroup(mlir::Value group);
  void finish(llvm::ArrayRef<mlir::Value> panels);

  bool isUnpacked() const { return spec.bits < 8; }
  int64_t digits() const { return words.digits; }
  int64_t stepWords() const { return layout.quads / words.steps(); }
  /// How many hold tiles of A: two row tiles, or the digits of one.
  int64_t leftRegisters() const;
  mlir::Value unpackedAt(int64_t column);
  mlir::Value ahead(mlir::Value pointer);
  void clear(int64_t at);
  mlir::Value at(int64_t offset);
  /// Row `local` of a tile of B's sums or totals.
  mlir::Value sumAt(int64_t offset, int64_t column, mlir::Value local);
  mlir::Value load(mlir::VectorType type, mlir::Value pointer) {
    return b.load(type, pointer, 4);
  }

  static constexpr int64_t vectors = 2; ///< Tiles in the width of a panel.

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  PackedWords &words;
  PackedNumbers &numbers;
  PackedSums &sums;
  const PackedScratch &scratch;
  Layout layout;
  AmxTiles tiles;
  mlir::Value memory;
  mlir::VectorType i32s, f32s;
  const PackedPart *part = nullptr; ///< What is being emitted.
  mlir::Value firstRow;
  int64_t rows = 0;
  llvm::SmallVector<Column, 4> columns;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDTILES_H
