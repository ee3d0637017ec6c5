//===- WarpTiles.h - Attention's products in a warp -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's matrix products. A warp has 16 rows. Their product with a matrix
// in workgroup memory stays in registers, where it can be the left factor of
// the next product. bf16 is multiplied by mma.sync on tensor cores, f32 by FMA.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H

#include "KernelFrame.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::gpu {

/// Rows of a tile.
constexpr int64_t warpRows = 16;
/// The number of columns of a tile is a multiple of this.
constexpr int64_t warpColumns = 16;

/// A thread's part of a tile of its warp: rows x columns f32.
struct WarpTile {
  int64_t rows = 0, columns = 0;
  llvm::SmallVector<mlir::Value> elements;

  mlir::Value &at(int64_t row, int64_t column) {
    return elements[row * columns + column];
  }
  mlir::Value at(int64_t row, int64_t column) const {
    return elements[row * columns + column];
  }
};

/// Rows of a two-dimensional buffer in workgroup memory, from `firstRow` (i32)
/// on.
struct SharedRows {
  mlir::Value memory, firstRow;
};

/// The left factor of products: 16 rows of a warp.
struct LeftRows {
  SharedRows rows;
  /// The rows as operands of mma.sync, if they stay in registers.
  llvm::SmallVector<mlir::Value> fragments;
};

/// How lanes share the random words of a tile. Philox draws four words at a
/// time, for four adjacent keys. Each lane draws some of them, and other lanes
/// get the words by shuffles. There is one step for every eight columns. In
/// step t a lane draws for the element at `row` and `column` + 8 t, and for the
/// next three keys.
struct RandomShares {
  mlir::Value row, column;
  /// The lanes that a lane gets words from.
  llvm::SmallVector<mlir::Value> lanes;
  /// The origin of an element's word: lane `lanes[source]` has drawn it in
  /// `step`, as number `key` + `keyOffset` of four.
  struct WordSource {
    int64_t source, step, keyOffset;
  };
  std::function<WordSource(int64_t i, int64_t j)> sourceOf;
  mlir::Value key;
};

/// The layout of tiles in a warp's registers, and products of such tiles.
/// Subclasses multiply by mma.sync (bf16) or FMA (f32).
class WarpTiles {
public:
  /// For matrices whose rows have `width` elements of type `element`: f32 or
  /// bf16.
  static std::unique_ptr<WarpTiles> create(KernelFrame &frame,
                                           mlir::Type element, int64_t width);
  virtual ~WarpTiles() = default;

  /// `rowsOfThread`: rows of a tile of which a thread has elements.
  /// `lanesOfRow`: adjacent lanes that share a row.
  int64_t rowsOfThread() const { return threadRows; }
  int64_t lanesOfRow() const { return rowLanes; }
  /// `width`: elements of a row in workgroup memory, including zeros that pad
  /// the row. `leadingDimension` adds more padding, which avoids bank
  /// conflicts.
  int64_t width() const { return paddedWidth; }
  int64_t leadingDimension() const {
    return paddedWidth + accessBytes / dist::byteSize(element);
  }

  /// The row of the tile (i32) that is row `i` of this thread.
  virtual mlir::Value row(int64_t i) = 0;
  /// Columns of a product of rows: the thread's first column, and the distance
  /// of its column `j` from that.
  virtual mlir::Value firstColumn() = 0;
  virtual int64_t columnOffset(int64_t j) = 0;
  /// The columns of a tile of sums (`accumulate`), which are features: the
  /// thread's first column, and the distance of its column `j` from that.
  /// Groups of `chunk` columns are adjacent.
  virtual mlir::Value firstSumColumn() = 0;
  virtual int64_t sumColumnOffset(int64_t j) = 0;
  virtual int64_t chunk() const = 0;
  /// With `keysAreColumns`, the tile's columns are keys; otherwise its rows.
  virtual RandomShares randomShares(bool keysAreColumns) = 0;

  /// Prepares rows as a left factor. With `keep` they stay in registers, if
  /// that saves loads. A barrier must separate the writes of the rows from
  /// this.
  virtual LeftRows left(const SharedRows &rows, bool keep) = 0;
  /// Returns left right^T, for `columns` rows of `right`.
  virtual WarpTile multiply(const LeftRows &left, const SharedRows &right,
                            int64_t columns) = 0;
  /// Computes sums += weights right. `weights` has a column for each row of
  /// `right`.
  virtual void accumulate(WarpTile &sums, const WarpTile &weights,
                          const SharedRows &right) = 0;

  /// Returns a tile of zeros for `accumulate`.
  WarpTile zeroSums();
  /// Combines a value over the lanes that share a row.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  mlir::Value acrossRow(mlir::Value value, Combine combine);
  /// Returns the value that another lane has.
  mlir::Value shuffle(mlir::Value value, mlir::Value lane);

protected:
  WarpTiles(KernelFrame &frame, mlir::Type element, int64_t rows, int64_t lanes,
            int64_t padded);

  mlir::Value at(const SharedRows &rows, mlir::Value row, mlir::Value column,
                 mlir::Type type);
  mlir::Value constant(double value);

  KernelFrame &f;
  codegen::IntBuilder i32;
  mlir::Value lane; ///< i32
  mlir::Type element;

private:
  int64_t threadRows, rowLanes, paddedWidth;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H
