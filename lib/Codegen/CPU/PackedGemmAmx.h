//===- PackedGemmAmx.h - Products with packed weights on AMX ----*- C++ -*-===//
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

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H

#include "AmxTiles.h"
#include "IntegerActivations.h"
#include "PackedSums.h"

namespace heddle::cpu {

class PackedGemmAmx {
public:
  /// Whether tiles make the products. Where sums depend on that, it does not
  /// depend on the number of rows.
  static bool isUsedFor(const PackedGemmSpec &spec, const CpuTarget &target);
  /// Rows for which a weight is read from memory once.
  static int64_t rowsOfBlock(const PackedGemmSpec &spec);
  /// Panels that are worth taking: where K is cut, all rows are read for them.
  int64_t leastPanels() const { return layout.isCut() ? 8 : 1; }

  /// Where the scratch of the tiles has what.
  struct Layout {
    Layout(const PackedGemmSpec &spec, int64_t blockRows);
    int64_t quads;    ///< Rows of a tile of B: its words, or bytes by four.
    int64_t tileRows; ///< Of a tile of A.
    int64_t rows;     ///< Of A, in whole tiles.
    int64_t columns;  ///< Tiles of B side by side, at most.
    /// Parts of K, and how many of them make a cut, for which all rows stay in
    /// the second cache.
    int64_t units, unitsOfCut;
    int64_t steps;  ///< Tiles along K.
    int64_t digits; ///< Tiles of A for the same rows and inputs.
    int64_t left;   ///< Registers of A: for two tiles of rows, or two digits.
    int64_t tilesOfRows;   ///< Of rows, that are multiplied together.
    int64_t blocks;        ///< Of numbers, that a row has.
    int64_t unpackedBytes; ///< Of one tile of B, in a block of numbers.
    int64_t rowsAt = 0, scalesAt, beginsAt, totalsAt, sumsAt, wholeAt,
            unpackedAt, configAt, bytes;
    bool isCut() const { return unitsOfCut < units; }
    int64_t columnBytes() const { return rows * AmxTiles::rowBytes; }
  };

  PackedGemmAmx(LoopBuilder &builder, const PackedGemmSpec &spec,
                const CpuTarget &target, WeightUnpacker &unpacker,
                IntegerActivations &activations, PackedSums &sums,
                const PackedScratch &scratch, mlir::Value memory);

  void configure();
  /// Copies a row that was made ready to where tiles read it as row `local`:
  /// tiles that are multiplied together follow each other, and these along K.
  void takeRow(mlir::Value row, mlir::Value local);
  void release() { tiles.release(); }
  /// Makes `count` rows from `first` on, which were made ready, in panels
  /// `begin` to `end` of the part.
  void emit(const FusedProducts &part, mlir::Value first, int64_t count,
            mlir::Value begin, mlir::Value end);

private:
  /// A tile of B, over all of K: half of a panel's columns.
  struct WeightColumn {
    mlir::Value panel;
    const PackedWeight *weight;
    int64_t vector;
    mlir::Value packedWords; ///< Of the panel's half, from the first on.
  };
  /// Part of K: blocks of numbers, or what stays in the first cache.
  struct KSlice {
    /// The first word, the first tile along K, and how many of these.
    mlir::Value word, firstStep, steps;
    // Of numbers:
    mlir::Value group, block; ///< The block among all of a row's.
    /// Whether sums of the block before it are pending, and their group.
    mlir::Value isPending, groupBefore;
  };
  /// Emits a part of what is done while tiles are multiplied: of so many.
  using MeanwhileFn = llvm::function_ref<void(int64_t part, int64_t parts)>;
  /// Sums of whole numbers that wait until tiles are busy with the next ones.
  struct PendingSums {
    mlir::Value group, block, tile;
    int64_t rowTiles = 0, firstColumn = 0, count = 0;
  };

  void emitCuts(mlir::Value begin, mlir::Value end);
  void setColumns(llvm::ArrayRef<mlir::Value> panels);
  void addUnits(mlir::Value begin, mlir::Value end);
  void addPairs(mlir::Value slice);
  void addGroup(mlir::Value group, mlir::Value begin);
  void addBlocks(mlir::Value group, mlir::Value begin, mlir::Value end);
  void addBlock(mlir::Value group, mlir::Value block, mlir::Value begin,
                int64_t length);
  void unpack(mlir::Value word, int64_t count);
  void emitRows(const KSlice &slice);
  void emitRowTiles(const KSlice &slice, mlir::Value tile, int64_t rowTiles,
                    MeanwhileFn meanwhile);
  void multiply(const KSlice &slice, mlir::Value tile, int64_t rowTiles,
                int64_t firstColumn, int64_t count, MeanwhileFn meanwhile);
  void multiplyStep(const KSlice &slice, mlir::Value tile, mlir::Value step,
                    int64_t left, int64_t firstColumn, int64_t count,
                    MeanwhileFn meanwhile);
  void prefetchLines(mlir::Value at, mlir::Value tile);
  void prefetchSlice(const KSlice &slice, mlir::Value tile, mlir::Value step);
  PendingSums lastColumns(mlir::Value group, mlir::Value block,
                          mlir::Value tile, int64_t rowTiles) const;
  PendingSums lastOf(mlir::Value group, mlir::Value block);
  void addIntegers(const PendingSums &pending, int64_t part = 0,
                   int64_t parts = 1);
  void addRow(const PendingSums &pending,
              llvm::ArrayRef<PackedSums::Scale> scales, int64_t rowTile,
              mlir::Value inTile);
  void scaleGroup(mlir::Value group);
  void finish();

  bool isUnpacked() const { return spec.bits < 8; }
  /// Whether K is one group of several blocks, whose sums become the totals.
  bool isOneGroup() const {
    return unpacker.isInteger && spec.groups == 1 &&
           activations.layout.blocksOfGroup() > 1;
  }
  bool prefetchesSlices() const;
  /// Of B, whose sums are in registers with those of tiles of rows.
  int64_t columnsTogether(int64_t rowTiles) const;
  mlir::Value before(mlir::Value index) { return b.sub(index, b.constant(1)); }
  int64_t digits() const { return layout.digits; }
  /// Where tiles of A are that are multiplied together.
  mlir::Value rowsAt(mlir::Value tile, mlir::Value step);
  /// Of a row, 4 bytes of each block.
  mlir::Value ofBlock(int64_t offset, mlir::Value block, mlir::Value local);
  int64_t stepWords() const { return layout.quads / unpacker.steps(); }
  mlir::Value unpackedAt(int64_t column);
  mlir::Value ahead(mlir::Value pointer);
  void clear(mlir::Value sums);
  mlir::Value at(int64_t offset);
  /// Row `local` of a tile of B's sums or totals.
  mlir::Value sumAt(mlir::Value sums, int64_t column, mlir::Value local);
  mlir::Value load(mlir::VectorType type, mlir::Value pointer) {
    return b.load(type, pointer, 4);
  }

  static constexpr int64_t vectors = 2; ///< Tiles in the width of a panel.

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  WeightUnpacker &unpacker;
  IntegerActivations &activations;
  PackedSums &sums;
  const PackedScratch &scratch;
  Layout layout;
  AmxTiles tiles;
  mlir::Value memory;
  mlir::VectorType i32s, f32s;
  const FusedProducts *part = nullptr; ///< What is being emitted.
  mlir::Value firstRow;
  int64_t rows = 0;
  llvm::SmallVector<WeightColumn, 4> columns;
  mlir::Value totals, groupSums; ///< Of these columns, where they are emitted.
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H
