//===- PackedGemmAmx.h - Products with packed weights on AMX ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The implementation of PackedGemm.h with AMX tiles. A packed word of a weight
// has two bf16 or fp16, or four int8 codes. These are also the 32 bits that a
// row of an AMX tile of B holds for one column. So tiles of B are loaded from
// the packed weight itself. int4 codes are unpacked to bytes in scratch.
//
// With quantized weights, activations are integers (IntegerActivations.h) and
// sums are exact, so tiles and vectors give the same bits. With bf16 or
// fp16 weights the bits of a sum depend on its order, in which tiles and
// vectors differ. So tiles compute the products for every number of rows.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H

#include "AmxTiles.h"
#include "IntegerActivations.h"
#include "PackedSums.h"

namespace heddle::cpu {

/// Emits the products of one block of rows with panels of packed weights.
class PackedGemmAmx {
public:
  /// Whether AMX tiles compute the products, rather than vector instructions.
  /// The answer depends on the number of rows only for integer activations,
  /// where both give the same bits.
  static bool isUsedFor(const PackedGemmSpec &spec, const CpuTarget &target);
  /// The number of rows of A in a block. The weight is read from memory once
  /// for each block.
  static int64_t rowsOfBlock(const PackedGemmSpec &spec);
  /// The smallest number of panels that a thread should take dynamically. If
  /// the cache cannot hold all rows of A, a thread must load them again for
  /// each set of panels that it takes. So the set should not be small.
  int64_t leastPanels() const { return layout.isCut() ? 8 : 1; }

  /// Sizes of tiles and loops, and the layout of the scratch memory that tiles
  /// use, in bytes.
  struct Layout {
    Layout(const PackedGemmSpec &spec, int64_t blockRows);
    int64_t quads;    ///< Rows of a tile of B: words, or groups of four bytes.
    int64_t tileRows; ///< Rows of a tile of A.
    int64_t rows;     ///< Rows of A in a block, rounded up to whole tiles.
    int64_t columns;  ///< The largest number of tiles of B side by side.
    /// K is divided into `units` units. With a bf16 or fp16 weight, a unit is a
    /// slice whose weights fit in the first-level cache. With a quantized
    /// weight, a unit is a group (weights with a common scale). If one group
    /// covers all of K, a unit is a block (activations with a common scale)
    /// instead. The code computes `unitsOfCut` units (a cut of K) for several
    /// panels at a time. A cut is so short that the second-level cache can hold
    /// the cut's columns of A, for all rows of a block.
    int64_t units, unitsOfCut;
    int64_t steps;  ///< Tiles along K.
    int64_t digits; ///< Digits of an activation; each has a tile of A.
    int64_t left;   ///< Tile registers for A: two row tiles, or two digits.
    int64_t tilesOfRows;   ///< Row tiles that are multiplied together.
    int64_t blocks;        ///< Blocks of integer activations in a row.
    int64_t unpackedBytes; ///< Bytes of a tile column of unpacked int4 codes.
    int64_t rowsAt = 0, scalesAt, beginsAt, totalsAt, sumsAt, wholeAt,
            unpackedAt, configAt, bytes;
    bool isCut() const { return unitsOfCut < units; }
    int64_t columnBytes() const { return rows * AmxTiles::rowBytes; }
  };

  PackedGemmAmx(LoopBuilder &builder, const PackedGemmSpec &spec,
                const CpuTarget &target, WeightUnpacker &unpacker,
                IntegerActivations &activations, PackedSums &sums,
                const PackedScratch &scratch, mlir::Value memory);

  /// Emits the configuration of the tile registers.
  void configure();
  /// Copies a row of A that is ready to be multiplied (prepared) from `row`
  /// into tiles of A, as row `local` of the block. For each step along K, the
  /// tiles that are multiplied together are adjacent in memory.
  void takeRow(mlir::Value row, mlir::Value local);
  void release() { tiles.release(); }
  /// Emits the products of `part` for panels `begin` to `end` and for `count`
  /// rows of A from row `first` on, which `takeRow` has copied into tiles.
  void emit(const FusedProducts &part, mlir::Value first, int64_t count,
            mlir::Value begin, mlir::Value end);

private:
  /// A column of tiles of B: all tiles along K for half of the columns of a
  /// panel.
  struct WeightColumn {
    mlir::Value panel;
    const PackedWeight *weight;
    int64_t vector;          ///< Which half of the panel: 0 or 1.
    mlir::Value packedWords; ///< The address of the first packed words.
  };
  /// A slice of K. With a quantized weight, it is a block (integer activations
  /// with a common scale). With a bf16 or fp16 weight, it is so short that the
  /// first-level cache can hold the slice's weights.
  struct KSlice {
    /// The slice's position along K: the index of its first packed word in a
    /// column of the weight, the index of its first tile, and its number of
    /// tiles.
    mlir::Value word, firstStep, steps;
    // The rest is only for integer activations.
    /// The slice's group (weights with a common scale), and the slice's index
    /// among all blocks of a row of A.
    mlir::Value group, block;
    /// Whether the integer sums of the previous block along K are still to be
    /// scaled and added, and the weight's group to which that block belongs.
    mlir::Value isPending, groupBefore;
  };
  /// Emits the part with index `part` of vector code that is split into `parts`
  /// parts. The CPU executes this code while it multiplies tiles.
  using MeanwhileFn = llvm::function_ref<void(int64_t part, int64_t parts)>;
  /// Integer sums that tiles have stored in scratch memory. Vector code scales
  /// and adds these sums while tiles multiply the next block of K, the next row
  /// tiles or the next columns.
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
  /// Whether K is one group (weights with a common scale) of several blocks
  /// (activations with a common scale). Then the sums of this group are in the
  /// memory of the totals (the sums over all of K): when the group is done, the
  /// totals replace them.
  bool isOneGroup() const {
    return unpacker.isInteger && spec.groups == 1 &&
           activations.layout.blocksOfGroup() > 1;
  }
  bool prefetchesSlices() const;
  /// The number of tile columns of B whose sums fit in the tile registers
  /// together, for `rowTiles` row tiles.
  int64_t columnsTogether(int64_t rowTiles) const;
  mlir::Value before(mlir::Value index) { return b.sub(index, b.constant(1)); }
  int64_t digits() const { return layout.digits; }
  /// The address of the tiles of A that are multiplied together: the row tiles
  /// from `tile` on, at step `step` along K.
  mlir::Value rowsAt(mlir::Value tile, mlir::Value step);
  /// The address of the entry for block `block` and row `local` in a table of
  /// 32-bit values, such as scales. `offset` is the table's offset in scratch
  /// memory.
  mlir::Value ofBlock(int64_t offset, mlir::Value block, mlir::Value local);
  int64_t stepWords() const { return layout.quads / unpacker.steps(); }
  mlir::Value unpackedAt(int64_t column);
  mlir::Value ahead(mlir::Value pointer);
  void clear(mlir::Value sums);
  mlir::Value at(int64_t offset);
  /// The address of row `local` of tile column `column` in `sums`, which is
  /// `totals` or `groupSums`.
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
  const FusedProducts *part = nullptr; ///< The products being emitted.
  mlir::Value firstRow;
  int64_t rows = 0;
  llvm::SmallVector<WeightColumn, 4> columns;
  /// The addresses of f32 sums for the tile columns in `columns`. `totals` are
  /// the sums over all of K. `groupSums` are the sums over the current group,
  /// before the weight's scales are applied.
  mlir::Value totals, groupSums;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDGEMMAMX_H
