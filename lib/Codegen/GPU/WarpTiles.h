//===- WarpTiles.h - Small products of one warp -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A warp has 16 rows. Their products with a matrix in workgroup memory stay in
// registers, and may be the left factor of the next product. bf16 is multiplied
// by tensor cores, f32 element by element.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H

#include "KernelFrame.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::gpu {

/// Rows of a tile.
constexpr int64_t warpRows = 16;
/// Columns of a tile are counted in multiples of this.
constexpr int64_t warpColumns = 16;

/// What a thread holds of a tile of its warp: rows x columns f32.
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

/// Rows in workgroup memory from `firstRow` (i32) on; `memory` has two
/// dimensions.
struct SharedRows {
  mlir::Value memory, firstRow;
};

/// The left factor of products: 16 rows.
struct LeftRows {
  SharedRows rows;
  /// What tensor cores take, when it stays in registers.
  llvm::SmallVector<mlir::Value> fragments;
};

/// Which lanes draw the random words of a tile. Four adjacent keys share a
/// block of random words: a lane draws some blocks, and other lanes ask it. In
/// step t, of one for every eight columns, it draws for the element at `row`
/// and `column` + 8 t, and the three keys behind it.
struct RandomShares {
  mlir::Value row, column;
  /// The lanes that a lane asks.
  llvm::SmallVector<mlir::Value> lanes;
  /// Where the word of an element is: with lane `lanes[source]`, who drew it in
  /// `step`, as number `key` + `keyOffset` of the four.
  struct WordSource {
    int64_t source, step, keyOffset;
  };
  std::function<WordSource(int64_t i, int64_t j)> sourceOf;
  mlir::Value key;
};

/// How elements lie in a warp's registers, and products of such tiles.
class WarpTiles {
public:
  /// For matrices of rows of `width` elements of `element`: f32 or bf16.
  static std::unique_ptr<WarpTiles> create(KernelFrame &frame,
                                           mlir::Type element, int64_t width);
  virtual ~WarpTiles() = default;

  /// Rows of a tile that one thread holds, and lanes that share a row: adjacent
  /// ones.
  int64_t rowsOfThread() const { return threadRows; }
  int64_t lanesOfRow() const { return rowLanes; }
  /// Elements of a row in workgroup memory that hold data or zeros, and from
  /// one row to the next.
  int64_t width() const { return paddedWidth; }
  int64_t leadingDimension() const {
    return paddedWidth + accessBytes / dist::byteSize(element);
  }

  /// The row of the tile that is the thread's row `i` (i32).
  virtual mlir::Value row(int64_t i) = 0;
  /// Columns of a product of rows: the one of the thread's first, and how far
  /// behind that its column `j` is.
  virtual mlir::Value firstColumn() = 0;
  virtual int64_t columnOffset(int64_t j) = 0;
  /// The same of sums whose columns are those of the matrices, of which `chunk`
  /// are adjacent.
  virtual mlir::Value firstSumColumn() = 0;
  virtual int64_t sumColumnOffset(int64_t j) = 0;
  virtual int64_t chunk() const = 0;
  /// `keysAreColumns`: in a product of rows, else keys are its rows.
  virtual RandomShares randomShares(bool keysAreColumns) = 0;

  /// Rows as a left factor; with `keep` they stay in registers where that is
  /// useful. A barrier must be between writing and this.
  virtual LeftRows left(const SharedRows &rows, bool keep) = 0;
  /// left right^T, for `columns` rows of `right`.
  virtual WarpTile multiply(const LeftRows &left, const SharedRows &right,
                            int64_t columns) = 0;
  /// sums += weights right; `weights` has a column for each row of `right`.
  virtual void accumulate(WarpTile &sums, const WarpTile &weights,
                          const SharedRows &right) = 0;

  /// A tile of zeros for `accumulate`.
  WarpTile zeroSums();
  /// Combines what the lanes of a row have.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  mlir::Value acrossRow(mlir::Value value, Combine combine);
  /// What another lane has.
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
