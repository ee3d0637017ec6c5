//===- GemmTiles.h - Tiles of a matrix product ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes one tile of the result. Tiles of both operands stand in a
// ring of stages in shared memory: while the warps multiply one, the next are
// under way (cp.async). The parts:
//
//   TileCopy     moves tiles of one operand from global to shared memory
//                (f32 for tensor cores is rounded to tf32 on the way)
//   Multiplier   multiplies a stage: mma.sync in bf16 and tf32, FMA in f32
//   TileSums     sums one operand of a stage along k
//   GemmLoop     brings and multiplies one stage after the other
//   SumTile      brings the sums, through shared memory, into rows
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
/// What a warp multiplies by FMA at a time: a group of 4 x 4 sums each lane.
constexpr int64_t fmaGroup = 4, fmaM = 4 * fmaGroup, fmaN = 8 * fmaGroup;

/// Units of 16 bytes in shared memory that are permuted among each other: those
/// that meet all banks once.
constexpr int64_t mixedUnits = 8;
/// Bytes behind each row of a tile in tf32: so the same units of eight rows
/// meet all banks once, and every place is a constant away from the first.
constexpr int64_t tf32Padding = 16;

/// How a product is divided.
struct Tiling {
  int64_t m, n, k;          ///< A block's tile, and the step along k.
  int64_t warpsM, warpsN;   ///< How the warps divide the tile.
  int64_t stages;           ///< Of the ring.
  bool tensorCores = false; ///< bf16 operands on mma.sync.
  bool tf32 = false;        ///< f32 operands on mma.sync.
  int64_t parts = 1;        ///< Of k, each summed by blocks of its own.
  int64_t partK = 0;        ///< The length of a part.

  int64_t threads() const { return warpsM * warpsN * warpSize; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  /// Of an element in shared memory.
  int64_t elementBytes() const { return tensorCores ? 2 : 4; }
  int64_t stageBytes() const {
    return (m + n) * (k * elementBytes() + (tf32 ? tf32Padding : 0));
  }
  int64_t sharedBytes() const {
    return std::max(stages * stageBytes(), m * n * 4);
  }
  int64_t steps() const { return llvm::divideCeil(partK, k); }
};

/// The tiling for a product that should take the least time on `chip`.
Tiling chooseTiling(const codegen::Product &product, const Chip &chip);

/// One operand's tiles. "Outer" is the dimension that is not k.
struct TileShape {
  mlir::Type stored;        ///< Element type in global memory.
  bool kContiguous;         ///< Stored rows run along k.
  int64_t outer, k;         ///< Sizes of the whole operand.
  int64_t stride;           ///< Elements from a stored row to the next.
  int64_t tileOuter, tileK; ///< Of a tile.
  bool tensorCores;         ///< Holds bf16 for ldmatrix; f32 otherwise.
  bool tf32;                ///< Holds tf32 for ldmatrix.

  int64_t elementBytes() const { return tensorCores ? 2 : 4; }
  int64_t storedBytes() const { return stored.isBF16() ? 2 : 4; }
  int64_t tileBytes() const {
    return (rowsAlongK() ? tileOuter : tileK) * rowBytes();
  }
  /// Whether rows in shared memory run along k: of bf16 as stored, which
  /// ldmatrix transposes on the way to registers; of tf32 always, which it
  /// cannot. FMA reads vectors along "outer".
  bool rowsAlongK() const { return tf32 || (tensorCores && kContiguous); }
  /// Whether rows become columns on the way to shared memory.
  bool isTransposed() const { return kContiguous != rowsAlongK(); }
  /// Whether accesses would meet in the same banks if units stood in order:
  /// those of ldmatrix, and copies that transpose. Rows of tf32 are padded.
  bool isPermuted() const { return !tf32 && (tensorCores || isTransposed()); }
  int64_t rowBytes() const {
    return (rowsAlongK() ? tileK : tileOuter) * elementBytes() +
           (tf32 ? tf32Padding : 0);
  }
};

/// Coordinates within a tile: some of the thread, moved by constants.
struct TileCoordinates {
  mlir::Value outer, k;
  int64_t outerMoved = 0, kMoved = 0;
};

/// The address of an element in the tile at `tile`, in shared memory. Units of
/// 16 bytes are permuted within a row, so that what a warp accesses together
/// lies in different banks. Places that differ by constants share their
/// arithmetic where the permutation allows.
mlir::Value tileAddress(ThreadCode &c, const TileShape &shape, mlir::Value tile,
                        const TileCoordinates &place);

/// Copies tiles of one operand, each thread its part.
class TileCopy {
public:
  /// For the tile rows from `firstOuter` on, the first at k = `firstK`.
  /// `checksK`: some tile reaches beyond the end of k.
  TileCopy(ThreadCode &c, const TileShape &shape, int64_t threads,
           mlir::Value global, mlir::Value firstOuter, mlir::Value firstK,
           bool checksK);

  /// Where this thread reads in the first tile; each next is `step` bytes on.
  mlir::Value begin() const { return first; }
  int64_t step() const;
  /// Starts a tile's copies to `target`. `left`: elements along k until the
  /// end, from this tile on.
  void start(mlir::Value source, mlir::Value left, mlir::Value target);

  /// Tiles in tf32 take two calls instead. First this thread's part comes to
  /// registers, in f32: `numUnits` times four elements along k.
  llvm::SmallVector<mlir::Value> fetch(mlir::Value source, mlir::Value left);
  /// Then it is rounded and stored.
  void put(llvm::ArrayRef<mlir::Value> values, mlir::Value target);
  int64_t numElements() const {
    return shape.tileOuter * shape.tileK / threads;
  }
  int64_t numUnits() const { return numElements() / tf32Unit; }
  /// Where a unit begins. All lanes that differ in the last `lanesAlongK()`
  /// have the same outer places.
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
  int64_t width; ///< Elements of an access.
  /// By cp.async; through registers from rows that are not aligned to words; or
  /// converted one by one.
  enum class Method {
    Asynchronous,
    Shifted,
    Elements
  } method = Method::Asynchronous;
  bool checksK;
  mlir::Value thread, firstOuter, first, safe;
};

/// A fragment of 16 x 16 bf16 or 16 x 8 tf32 as mma.sync's left operand, from
/// the places `outer` + `outerMoved` and `k` of the tile at `tile` on.
llvm::SmallVector<mlir::Value>
loadLeftFragment(ThreadCode &c, const TileShape &shape, mlir::Value tile,
                 mlir::Value outer, int64_t outerMoved, int64_t k);

/// `sum`, a lane's part of a 16 x 8 tile, plus the product of fragments of bf16
/// or, where `tf32` says so, of tf32.
void mmaSync(ThreadCode &c, llvm::ArrayRef<mlir::Value> left,
             llvm::ArrayRef<mlir::Value> right,
             llvm::MutableArrayRef<mlir::Value> sum, bool tf32 = false);

/// The sums of this thread and where they stand in the block's tile.
class Multiplier {
public:
  Multiplier(ThreadCode &c, const Tiling &tiling, const TileShape &left,
             const TileShape &right);

  int64_t numSums() const;
  /// Adds the product of the tiles at `leftTile` and `rightTile`, from place
  /// `begin` along k to `end`.
  void multiply(mlir::Value leftTile, mlir::Value rightTile, int64_t begin,
                int64_t end, llvm::MutableArrayRef<mlir::Value> sums);
  /// Calls `body` with adjacent sums and the place of the first in the tile.
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

/// Sums along k of one operand, one for each of its rows or columns in the
/// block's tile. bf16 is multiplied by ones on tensor cores. f32 is added in
/// f32 whatever the product is in: a thread adds up a column, or with tf32 what
/// it fetches before that is rounded.
class TileSums {
public:
  /// `copy` brings the operand's tiles.
  TileSums(ThreadCode &c, const Tiling &tiling, const TileShape &shape,
           const TileCopy &copy);

  /// Values in f32 that a thread carries.
  int64_t numSums() const;
  /// Adds the tile at `tile`.
  void add(mlir::Value tile, llvm::MutableArrayRef<mlir::Value> sums);
  /// With tf32: adds what this thread has fetched.
  void addFetched(llvm::ArrayRef<mlir::Value> values,
                  llvm::MutableArrayRef<mlir::Value> sums);
  /// Calls `body` with each sum that this thread has and its place in the tile,
  /// where only the threads that have one run.
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
  mlir::Value thread, firstOuter; ///< The warp's first in the tile.
};

/// The loop over k.
class GemmLoop {
public:
  /// Starts the copies of the first steps to the ring at `memory`. `elements`
  /// are left along k; `sumsLeft` says which operand may be summed.
  GemmLoop(ThreadCode &c, const Tiling &tiling, TileCopy &left, TileCopy &right,
           mlir::Value memory, mlir::Value elements, bool sumsLeft);

  /// Returns this thread's sums, then those of the operand. May be called once
  /// in each branch that follows.
  llvm::SmallVector<mlir::Value> emit(Multiplier &multiplier,
                                      TileSums *factorSums);

private:
  using Values = llvm::SmallVector<mlir::Value>;
  /// Where the next copies read: of both operands, and the elements that are
  /// left along k.
  struct Source {
    Values pointers;
    mlir::Value left;
  };
  void startRing();
  void fetchFirst();
  void startCopies(const Source &source, mlir::Value target);
  void advance(Source &source);
  /// Sums begin as `carried`.
  Values emitRing(Multiplier &multiplier, TileSums *factorSums, Values carried);
  Values emitTf32(Multiplier &multiplier, TileSums *factorSums, Values carried);

  ThreadCode &c;
  const Tiling &tiling;
  TileCopy &left, &right;
  mlir::Value memory;
  bool sumsLeft;
  Source next;
  /// With tf32: what this thread fetched of the operand's first tile.
  Values firstOfFactor;
};

/// A tile of f32 sums in shared memory.
class SumTile {
public:
  SumTile(ThreadCode &c, const Tiling &tiling, mlir::Value memory)
      : c(c), tiling(tiling), memory(memory) {}

  void put(mlir::Value row, mlir::Value column,
           llvm::ArrayRef<mlir::Value> values);
  /// `width` adjacent sums: 1, 2, 4 or 8.
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
