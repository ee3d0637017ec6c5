//===- GemmTiles.h - Tiles of a matrix product ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The classes that emit the kernel of a matrix product. A block computes one
// tile of the result. Shared memory holds a ring of stages, each with a tile of
// both operands. The warps multiply one stage while cp.async copies the next
// ones. MapGemm.cpp combines these classes:
//
//   TileCopy     copies tiles of one operand from global to shared memory, and
//                rounds f32 to tf32 where tensor cores multiply it
//   Multiplier   multiplies the tiles of a stage: mma.sync in bf16 and tf32,
//                FMA in f32 (GemmMma.cpp)
//   TileSums     sums one operand along k, beside the product
//   GemmLoop     the loop over k, which copies and multiplies stage by stage
//   SumTile      moves sums from fragments to rows through shared memory
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_GEMMTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_GEMMTILES_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::gpu {

/// The shape of one mma.sync.
constexpr int64_t mmaM = 16, mmaN = 8, mmaK = 16, mmaKTf32 = 8;
/// A warp's tile in one step of FMA: each lane has a group of 4 x 4 sums.
constexpr int64_t fmaGroup = 4, fmaM = 4 * fmaGroup, fmaN = 8 * fmaGroup;

/// The number of adjacent 16-byte units of shared memory within which units are
/// permuted. Together they cover each of the 32 banks once.
constexpr int64_t mixedUnits = 8;
/// The padding in bytes after each row of a tile in tf32. With it, the 16-byte
/// units at the same index of eight consecutive rows are in different banks.
/// Unlike a swizzle (a permutation of the units within a row), padding keeps
/// the distance of two elements constant.
constexpr int64_t tf32Padding = 16;

/// The tile sizes of a product: the part of the result that a block computes,
/// the grid of warps in the block, and the parts of k.
struct Tiling {
  int64_t m, n, k;          ///< Sizes of a block's tile; k: of one step.
  int64_t warpsM, warpsN;   ///< Number of warps along m and along n.
  int64_t stages;           ///< Stages of the ring in shared memory.
  bool tensorCores = false; ///< bf16 operands, multiplied by mma.sync.
  bool tf32 = false;        ///< f32 operands, rounded to tf32 for mma.sync.
  /// With split-K: the number of parts of k. Each part has thread blocks that
  /// multiply only its elements.
  int64_t parts = 1;
  int64_t partK = 0; ///< Number of elements along k in one part.

  int64_t threads() const { return warpsM * warpsN * warpSize; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  /// Bytes of an element in shared memory.
  int64_t elementBytes() const { return tensorCores ? 2 : 4; }
  int64_t stageBytes() const {
    return (m + n) * (k * elementBytes() + (tf32 ? tf32Padding : 0));
  }
  int64_t sharedBytes() const {
    return std::max(stages * stageBytes(), m * n * 4);
  }
  int64_t steps() const { return llvm::divideCeil(partK, k); }
};

/// Returns the tiling that is estimated to take the least time on `chip`.
Tiling chooseTiling(const codegen::Product &product, const Chip &chip);

/// The layout of one operand and of its tiles. "Outer" is the dimension other
/// than k.
struct TileShape {
  mlir::Type stored;        ///< Element type in global memory.
  bool kContiguous;         ///< Rows in global memory run along k.
  int64_t outer, k;         ///< Sizes of the whole operand.
  int64_t stride;           ///< Leading dimension, in elements.
  int64_t tileOuter, tileK; ///< Sizes of a tile.
  bool tensorCores;         ///< Shared memory holds bf16 for ldmatrix, else
                            ///< f32.
  bool tf32;                ///< Shared memory holds tf32 for ldmatrix.

  int64_t elementBytes() const { return tensorCores ? 2 : 4; }
  int64_t storedBytes() const { return stored.isBF16() ? 2 : 4; }
  int64_t tileBytes() const {
    return (rowsAlongK() ? tileOuter : tileK) * rowBytes();
  }
  /// Whether the tile's rows in shared memory run along k; otherwise they run
  /// along "outer". In bf16 they run as in global memory, since ldmatrix can
  /// transpose 16-bit elements on the way to registers. In tf32 they always run
  /// along k, since ldmatrix cannot transpose 32-bit elements. In f32 they run
  /// along "outer", since FMA reads vectors along "outer".
  bool rowsAlongK() const { return tf32 || (tensorCores && kContiguous); }
  /// Whether the copy to shared memory transposes the tile.
  bool isTransposed() const { return kContiguous != rowsAlongK(); }
  /// Whether 16-byte units are permuted (swizzled) to avoid bank conflicts,
  /// which ldmatrix and transposing copies would have otherwise. Tiles in tf32
  /// use padding instead.
  bool isPermuted() const { return !tf32 && (tensorCores || isTransposed()); }
  int64_t rowBytes() const {
    return (rowsAlongK() ? tileK : tileOuter) * elementBytes() +
           (tf32 ? tf32Padding : 0);
  }
};

/// The coordinates of an element in a tile. Each is the sum of a part that
/// depends on the thread (`outer`, `k`) and a constant (`outerMoved`,
/// `kMoved`).
struct TileCoordinates {
  mlir::Value outer, k;
  int64_t outerMoved = 0, kMoved = 0;
};

/// Returns the address in shared memory of an element of the tile at `tile`.
/// 16-byte units are permuted within a row, so that the addresses that a warp
/// accesses at the same time lie in different banks. Elements whose coordinates
/// differ by constants share address arithmetic if the permutation allows it.
mlir::Value tileAddress(ThreadCode &c, const TileShape &shape, mlir::Value tile,
                        const TileCoordinates &place);

/// Copies tiles of one operand to shared memory. Each thread copies a part of
/// each tile.
class TileCopy {
public:
  /// Copies tiles of the operand's rows from `firstOuter` on. The first tile
  /// begins at k = `firstK`. `checksK` says that some tile extends beyond the
  /// operand's end along k.
  TileCopy(ThreadCode &c, const TileShape &shape, int64_t threads,
           mlir::Value global, mlir::Value firstOuter, mlir::Value firstK,
           bool checksK);

  /// The address that this thread reads first in the first tile. It grows by
  /// `step` bytes from one tile to the next.
  mlir::Value begin() const { return first; }
  int64_t step() const;
  /// Starts the copy of one tile from `source` to `target`. `left` is the
  /// number of elements along k from the tile's beginning to the operand's end
  /// along k.
  void start(mlir::Value source, mlir::Value left, mlir::Value target);

  /// For tf32, `fetch` and `put` replace `start`. `fetch` loads this thread's
  /// elements of a tile into registers, in f32. These are `numUnits` units of
  /// four elements along k.
  llvm::SmallVector<mlir::Value> fetch(mlir::Value source, mlir::Value left);
  /// Rounds the fetched values to tf32 and stores them in the tile at `target`.
  void put(llvm::ArrayRef<mlir::Value> values, mlir::Value target);
  int64_t numElements() const {
    return shape.tileOuter * shape.tileK / threads;
  }
  int64_t numUnits() const { return numElements() / tf32Unit; }
  /// Returns the coordinates of the first element of a unit, which is four
  /// adjacent elements along k. `number` is the unit's index among those that
  /// this thread fetches. Every `lanesAlongK()` adjacent lanes have the same
  /// outer coordinate.
  TileCoordinates unit(int64_t number) const;
  int64_t lanesAlongK() const { return shape.tileK / tf32Unit; }
  int64_t tileBytes() const { return shape.tileBytes(); }

private:
  static constexpr int64_t tf32Unit = accessBytes / 4;

  TileCoordinates coordinatesOf(int64_t access) const;
  mlir::Value isInside(const TileCoordinates &place, mlir::Value left);
  llvm::SmallVector<mlir::Value>
  fetchFour(const TileCoordinates &place, mlir::Value source, mlir::Value left);
  mlir::Value bytesInRow(const TileCoordinates &place, mlir::Value left);
  void copyElement(mlir::Value source, mlir::Value inside, mlir::Value target);
  void copyShifted(mlir::Value source, const TileCoordinates &place,
                   mlir::Value left, mlir::Value target);
  void copyWords(mlir::Value source, mlir::Value target);

  ThreadCode &c;
  TileShape shape;
  int64_t threads;
  int64_t width; ///< Elements that one access copies.
  /// How a tile is copied: by cp.async; through registers, if rows are not
  /// aligned to words; or element by element, if elements must be converted to
  /// f32.
  enum class Method {
    Asynchronous,
    Shifted,
    Elements
  } method = Method::Asynchronous;
  bool checksK;
  mlir::Value thread, firstOuter, first, safe;
};

/// Loads the left operand of mma.sync from the tile at `tile`: 16 x 16 elements
/// in bf16, or 16 x 8 in tf32. The first element has the coordinates `outer` +
/// `outerMoved` (along the dimension other than k) and `k`. `outerMoved` is the
/// constant part of the sum; see TileCoordinates.
llvm::SmallVector<mlir::Value>
loadLeftFragment(ThreadCode &c, const TileShape &shape, mlir::Value tile,
                 mlir::Value outer, int64_t outerMoved, int64_t k);

/// Emits one mma.sync: multiplies two fragments and adds their product to
/// `sum`, this lane's part of a 16 x 8 tile. The fragments are bf16, or tf32 if
/// `tf32` is set.
void mmaSync(ThreadCode &c, llvm::ArrayRef<mlir::Value> left,
             llvm::ArrayRef<mlir::Value> right,
             llvm::MutableArrayRef<mlir::Value> sum, bool tf32 = false);

/// Multiplies tiles in shared memory. Tells which sums of the block's tile this
/// thread has.
class Multiplier {
public:
  Multiplier(ThreadCode &c, const Tiling &tiling, const TileShape &left,
             const TileShape &right);

  int64_t numSums() const;
  /// Multiplies the tiles at `leftTile` and `rightTile` for k from `begin` to
  /// `end`, and adds the product to the sums. k counts from the beginning of
  /// the tiles.
  void multiply(mlir::Value leftTile, mlir::Value rightTile, int64_t begin,
                int64_t end, llvm::MutableArrayRef<mlir::Value> sums);
  /// Calls `body` for each group of adjacent sums, with the coordinates of the
  /// group's first sum in the tile.
  void forSums(llvm::ArrayRef<mlir::Value> sums,
               llvm::function_ref<void(mlir::Value row, mlir::Value column,
                                       llvm::ArrayRef<mlir::Value> values)>
                   body);

private:
  using Values = llvm::SmallVector<mlir::Value>;
  void multiplyMma(mlir::Value leftTile, mlir::Value rightTile, int64_t k,
                   llvm::MutableArrayRef<mlir::Value> sums);
  void multiplyFma(mlir::Value leftTile, mlir::Value rightTile, int64_t k,
                   llvm::MutableArrayRef<mlir::Value> sums);
  Values rightFragments(mlir::Value tile, int64_t pair, int64_t k);
  Values loadGroups(const TileShape &shape, mlir::Value tile, mlir::Value outer,
                    int64_t groups, int64_t groupStep, int64_t k);
  int64_t groupsM() const { return tiling.warpM() / fmaM; }
  int64_t groupsN() const { return tiling.warpN() / fmaN; }

  ThreadCode &c;
  const Tiling &tiling;
  TileShape left, right;
  mlir::Value lane, warpRow, warpColumn;
};

/// Sums one operand along k. There is one sum for each of the operand's rows or
/// columns in the block's tile. For bf16, tensor cores compute the sums by
/// multiplying with ones. For f32, threads add elements in f32. With FMA, each
/// thread adds the elements of one column of the tile. With tf32, it adds the
/// elements that it fetches, before it rounds them.
class TileSums {
public:
  /// `shape` describes the tiles of the operand that is summed, and `copy`
  /// copies them.
  TileSums(ThreadCode &c, const Tiling &tiling, const TileShape &shape,
           const TileCopy &copy);

  /// The number of f32 sums that a thread carries through the loop over k.
  int64_t numSums() const;
  /// Adds the elements of the operand's tile at `tile` to its sums along k.
  void add(mlir::Value tile, llvm::MutableArrayRef<mlir::Value> sums);
  /// With tf32: adds `values`, the elements of the summed operand that this
  /// thread fetched (see TileCopy::fetch), to the thread's sums of the operand.
  void addFetched(llvm::ArrayRef<mlir::Value> values,
                  llvm::MutableArrayRef<mlir::Value> sums);
  /// Calls `body` for each sum of the operand along k that this thread has.
  /// `outer` is the sum's index in the tile: that of a row of A or of a column
  /// of B. The code that `body` emits runs only in threads that have a sum.
  mlir::LogicalResult
  forSums(llvm::ArrayRef<mlir::Value> sums,
          llvm::function_ref<mlir::LogicalResult(mlir::Value outer,
                                                 mlir::Value sum)>
              body);

private:
  int64_t fragments() const;
  void addFragments(mlir::Value tile, llvm::MutableArrayRef<mlir::Value> sums);
  void addElements(mlir::Value tile, mlir::Value &sum);
  mlir::Value acrossLanes(mlir::Value sum);

  ThreadCode &c;
  const Tiling &tiling;
  TileShape shape;
  const TileCopy &copy;
  mlir::Value thread, firstOuter; ///< First outer coordinate of the warp.
};

/// The loop over k: copies the tiles of each step and multiplies them.
class GemmLoop {
public:
  /// Starts the copies of the first steps to the ring of stages at `memory`. A
  /// stage holds the two tiles of one step. `elements` is the number of
  /// elements along k that this block multiplies. If `TileSums` is used, it
  /// sums the left operand with `sumsLeft`, otherwise the right one.
  GemmLoop(ThreadCode &c, const Tiling &tiling, TileCopy &left, TileCopy &right,
           mlir::Value memory, mlir::Value elements, bool sumsLeft);

  /// Emits the loop. Returns this thread's sums of the product. If `factorSums`
  /// is given, the thread's sums of an operand come next. This function may be
  /// called once in each branch of the emitted code: every call emits a whole
  /// loop, and only one branch runs.
  llvm::SmallVector<mlir::Value> emit(Multiplier &multiplier,
                                      TileSums *factorSums);

private:
  using Values = llvm::SmallVector<mlir::Value>;
  /// Where the next copies of both operands' tiles begin, and the number of
  /// elements along k (`left`) from there to the operands' end.
  struct Source {
    Values pointers;
    mlir::Value left;
  };
  void startRing();
  void fetchFirst();
  void startCopies(const Source &source, mlir::Value target);
  void advance(Source &source);
  /// Each emits one form of the loop over k. `emitRing` copies tiles directly
  /// to a ring of stages in shared memory. `emitTf32`, for tf32, copies tiles
  /// through registers, where their elements are rounded. `carried` has the
  /// initial values of the sums.
  Values emitRing(Multiplier &multiplier, TileSums *factorSums, Values carried);
  Values emitTf32(Multiplier &multiplier, TileSums *factorSums, Values carried);

  ThreadCode &c;
  const Tiling &tiling;
  TileCopy &left, &right;
  mlir::Value memory;
  bool sumsLeft;
  Source next;
  /// With tf32, if an operand is also summed along k: the elements of the
  /// operand's first tile that this thread fetched. `emitTf32` adds them to the
  /// operand's sums before the loop, since an iteration of the loop adds only
  /// the tile that it fetches for the next iteration.
  Values firstOfFactor;
};

/// A tile of f32 sums in shared memory. Threads write it in the layout of
/// mma.sync's or FMA's results, and read it by rows.
class SumTile {
public:
  SumTile(ThreadCode &c, const Tiling &tiling, mlir::Value memory)
      : c(c), tiling(tiling), memory(memory) {}

  void put(mlir::Value row, mlir::Value column,
           llvm::ArrayRef<mlir::Value> values);
  /// Returns `width` adjacent sums: 1, 2, 4 or 8.
  llvm::SmallVector<mlir::Value> get(mlir::Value row, mlir::Value column,
                                     int64_t width);

private:
  mlir::Value pointer(mlir::Value row, mlir::Value column);

  ThreadCode &c;
  const Tiling &tiling;
  mlir::Value memory;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_GEMMTILES_H
