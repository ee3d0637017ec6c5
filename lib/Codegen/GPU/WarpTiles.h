//===- WarpTiles.h - Attention's products in a warp -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's matrix products. A warp multiplies 16 rows with a matrix in
// workgroup memory. The product stays in registers, where it can be the left
// factor of the next product. The unit that multiplies (MultiplyUnit.h) creates
// the tiles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H

#include "KernelFrame.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::gpu {

/// The number of rows of a warp's tile.
constexpr int64_t warpRows = 16;
/// The number of columns of a tile is a multiple of this.
constexpr int64_t warpColumns = 16;

/// The elements of a warp's tile that one thread holds, in f32: `rows` x
/// `columns` of them.
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

/// The left factor of a warp's products: 16 rows in workgroup memory.
struct LeftRows {
  SharedRows rows;
  /// The elements of `rows` as operands of mma.sync in registers. Empty if they
  /// are loaded again for each product.
  llvm::SmallVector<mlir::Value> fragments;
};

/// How the lanes of a warp share random 32-bit words for dropout. An element of
/// a tile is the weight of one key for one query, and needs one word. A draw by
/// Philox makes four words: those of one query and four adjacent keys. There is
/// one step for every eight columns of the tile. In step t, each lane makes one
/// draw, which begins with the element at the lane's `row` and `column` + 8 t.
/// A lane gets the results of other lanes' draws by shuffles.
struct RandomShares {
  mlir::Value row, column;
  /// The lanes whose draws have the words for a lane's elements. The lane
  /// itself is one of them.
  llvm::SmallVector<mlir::Value> lanes;
  /// Says which random word belongs to an element: lane `lanes[source]` draws
  /// it in step `step`. Among the four words of this draw it has the index
  /// `RandomShares::key` + `keyOffset`.
  struct WordSource {
    int64_t source, step, keyOffset;
  };
  /// Returns where the random word comes from for the element in the `i`-th row
  /// and `j`-th column of a lane.
  std::function<WordSource(int64_t i, int64_t j)> sourceOf;
  mlir::Value key;
};

/// The layout of tiles in a warp's registers, and products of such tiles.
/// Subclasses multiply on one kind of unit.
class WarpTiles {
public:
  /// Creates the tiles for matrices whose rows have `width` elements of type
  /// `element`.
  static std::unique_ptr<WarpTiles> create(KernelFrame &frame,
                                           mlir::Type element, int64_t width);
  virtual ~WarpTiles() = default;

  /// `rowsOfThread` is the number of rows of a tile in which a thread has
  /// elements. `lanesOfRow` is the number of adjacent lanes that share a row.
  int64_t rowsOfThread() const { return threadRows; }
  int64_t lanesOfRow() const { return rowLanes; }
  /// `width` is the number of elements of a row in workgroup memory, including
  /// zeros that pad the row. `leadingDimension` is larger than `width`, which
  /// avoids bank conflicts.
  int64_t width() const { return paddedWidth; }
  int64_t leadingDimension() const {
    return paddedWidth + accessBytes / dist::byteSize(element);
  }

  /// Returns the row index (i32), in the tile, of the thread's row number `i`.
  virtual mlir::Value row(int64_t i) = 0;
  /// The columns that this thread has in the result of `multiply`: its first
  /// column, and the distance of its column `j` from the first one.
  virtual mlir::Value firstColumn() = 0;
  virtual int64_t columnOffset(int64_t j) = 0;
  /// The columns that this thread has in the sums of `accumulate`: its first
  /// column, and the distance of its column `j` from the first one. Each column
  /// is a feature. A thread's columns form groups of `chunk` adjacent ones.
  virtual mlir::Value firstSumColumn() = 0;
  virtual int64_t sumColumnOffset(int64_t j) = 0;
  virtual int64_t chunk() const = 0;
  /// Returns how lanes share random words for dropout. With `keysAreColumns`
  /// the columns of the tile are keys; otherwise its rows are.
  virtual RandomShares randomShares(bool keysAreColumns) = 0;

  /// Prepares rows in workgroup memory as the left factor of products. With
  /// `keep` the rows stay in registers, if that saves loads. The caller must
  /// emit a barrier between the stores of the rows and this function's code.
  virtual LeftRows left(const SharedRows &rows, bool keep) = 0;
  /// Returns the product of `left` and the transpose of `columns` rows of
  /// `right`.
  virtual WarpTile multiply(const LeftRows &left, const SharedRows &right,
                            int64_t columns) = 0;
  /// Adds the product of `weights` and `right` to `sums`. `weights` has one
  /// column for each row of `right`.
  virtual void accumulate(WarpTile &sums, const WarpTile &weights,
                          const SharedRows &right) = 0;

  /// Returns a tile of zeros for `accumulate`.
  WarpTile zeroSums();
  /// A function that combines two values. `acrossRow` uses it to combine the
  /// values of all lanes that share a row.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  mlir::Value acrossRow(mlir::Value value, Combine combine);
  /// Returns `value` of the lane with the index `lane`.
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

class NarrowMmaUnit;

/// Tiles whose products are computed by mma.sync of `unit`, or by FMA.
std::unique_ptr<WarpTiles> createMmaTiles(KernelFrame &frame,
                                          const NarrowMmaUnit &unit,
                                          mlir::Type element, int64_t width);
std::unique_ptr<WarpTiles> createFmaTiles(KernelFrame &frame,
                                          mlir::Type element, int64_t width);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_WARPTILES_H
