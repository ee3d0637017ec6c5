//===- GemmTiles.h - Tiles of a matrix product ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The classes that emit the kernel of a matrix product. A block computes one
// tile of the result. Shared memory holds a ring of stages, each with a tile of
// both operands. The warps multiply one stage while the next ones are copied.
// How stages are copied, multiplied and summed depends on the unit that
// multiplies (MultiplyUnit.h), which creates the objects of these classes.
// MapGemm.cpp combines them:
//
//   TileCopy     copies tiles of one operand from global to shared memory.
//                AsyncCopy copies them by cp.async
//   Multiplier   loads operands from the tiles in shared memory and multiplies
//                them
//   TileSums     sums one operand along k, beside the product
//   GemmLoop     the loop over k, which copies and multiplies stage by stage.
//                RingLoop copies several stages ahead, by AsyncCopy
//   SumTile      moves sums from fragments to rows through shared memory
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_GEMMTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_GEMMTILES_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::gpu {

/// The number of adjacent 16-byte units of shared memory within which units are
/// permuted. Together they cover each of the 32 banks once.
constexpr int64_t mixedUnits = 8;

/// The tile sizes of a product: the part of the result that a block computes,
/// the grid of warps in the block, and the parts of k.
struct Tiling {
  int64_t m, n, k;        ///< Sizes of a block's tile; k: of one step.
  int64_t warpsM, warpsN; ///< Number of warps along m and along n.
  int64_t stages;         ///< Stages of the ring in shared memory.
  /// With split-K: the number of parts of k. Each part has thread blocks that
  /// multiply only its elements.
  int64_t parts = 1;
  int64_t partK = 0; ///< Number of elements along k in one part.

  int64_t threads() const { return warpsM * warpsN * warpSize; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  int64_t steps() const { return llvm::divideCeil(partK, k); }
  /// Bytes of the block's sums, which are f32.
  int64_t sumBytes() const { return m * n * 4; }
};

/// The layout of an operand's tiles in shared memory. "Outer" is the dimension
/// other than k.
struct TileLayout {
  int64_t elementBytes; ///< Bytes of an element.
  bool rowsAlongK;      ///< Rows run along k; otherwise along "outer".
  /// Whether 16-byte units are permuted (swizzled) to avoid bank conflicts,
  /// which ldmatrix and transposing copies would have otherwise.
  bool isPermuted;
  /// Bytes of padding after each row, which also avoids bank conflicts. Unlike
  /// a swizzle, padding keeps the distance of two elements constant.
  int64_t padding = 0;
};

/// The sizes and the layout of one operand and of its tiles.
struct TileShape {
  mlir::Type stored;        ///< Element type in global memory.
  bool kContiguous;         ///< Rows in global memory run along k.
  int64_t outer, k;         ///< Sizes of the whole operand.
  int64_t stride;           ///< Leading dimension, in elements.
  int64_t tileOuter, tileK; ///< Sizes of a tile.
  TileLayout layout;        ///< Of the tiles in shared memory.

  int64_t storedBytes() const { return dist::byteSize(stored); }
  int64_t tileBytes() const {
    return (layout.rowsAlongK ? tileOuter : tileK) * rowBytes();
  }
  int64_t rowBytes() const {
    return (layout.rowsAlongK ? tileK : tileOuter) * layout.elementBytes +
           layout.padding;
  }
  /// Whether the copy to shared memory transposes the tile.
  bool isTransposed() const { return kContiguous != layout.rowsAlongK; }
  /// The distance in bytes, in global memory, of two tiles that follow each
  /// other along k.
  int64_t step() const {
    return tileK * (kContiguous ? 1 : stride) * storedBytes();
  }
};

/// One operand of the product that a block computes.
struct GemmOperand {
  TileShape shape;
  mlir::Value buffer;     ///< A memref in global memory.
  mlir::Value firstOuter; ///< Where the block's tiles begin along "outer".
};

/// The product that a block computes.
struct GemmBlock {
  const Tiling &tiling;
  GemmOperand left, right;
  mlir::Value firstK; ///< Where the block's first tiles begin along k.
  bool checksK;       ///< Some tile extends beyond the operands' end along k.
  bool sumsLeft;      ///< If an operand is summed along k, it is the left one.
  mlir::Value memory; ///< The block's shared memory.

  const GemmOperand &summed() const { return sumsLeft ? left : right; }
  int64_t stageBytes() const {
    return left.shape.tileBytes() + right.shape.tileBytes();
  }
  /// Bytes of shared memory. The sums overwrite the stages.
  int64_t sharedBytes() const {
    return std::max(tiling.stages * stageBytes(), tiling.sumBytes());
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

/// The number of elements of an operand that one access to global memory reads:
/// as many as 16 bytes hold, or fewer if the leading dimension is no multiple
/// of that number.
int64_t accessWidth(const TileShape &shape);

/// Copies tiles of one operand to shared memory. Each thread copies a part of
/// each tile.
class TileCopy {
public:
  /// The address that this thread reads first in the first tile. It grows by
  /// `TileShape::step` bytes from one tile to the next.
  mlir::Value begin() const { return first; }

protected:
  TileCopy(ThreadCode &c, const GemmBlock &block, const GemmOperand &operand);

  /// Sets `first`, for a thread whose first element in a tile is at `start`.
  void beginAt(const TileCoordinates &start);
  /// The address in global memory of the element whose coordinates differ from
  /// those of the thread's first element by the constant part of `place`.
  /// `source` is the address of the first element.
  mlir::Value pointer(mlir::Value source, const TileCoordinates &place);
  mlir::Value isInside(const TileCoordinates &place, mlir::Value left);

  ThreadCode &c;
  const GemmBlock &block;
  TileShape shape;
  int64_t threads;
  int64_t width = 1; ///< Elements that one access copies.
  mlir::Value global, thread, firstOuter, first;
};

/// Copies tiles by cp.async, while the block multiplies other tiles.
class AsyncCopy : public TileCopy {
public:
  AsyncCopy(ThreadCode &c, const GemmBlock &block, const GemmOperand &operand);

  /// Starts the copy of one tile from `source` to `target`. `left` is the
  /// number of elements along k from the tile's beginning to the operand's end
  /// along k.
  void start(mlir::Value source, mlir::Value left, mlir::Value target);

private:
  TileCoordinates coordinatesOf(int64_t access) const;
  mlir::Value bytesInRow(const TileCoordinates &place, mlir::Value left);
  void copyElement(mlir::Value source, mlir::Value inside, mlir::Value target);
  void copyShifted(mlir::Value source, const TileCoordinates &place,
                   mlir::Value left, mlir::Value target);
  void copyWords(mlir::Value source, mlir::Value target);

  /// How a tile is copied: by cp.async; through registers, if rows are not
  /// aligned to words; or element by element, if elements must be converted to
  /// f32.
  enum class Method {
    Asynchronous,
    Shifted,
    Elements
  } method = Method::Asynchronous;
};

/// Multiplies tiles in shared memory. Tells which sums of the block's tile this
/// thread has.
class Multiplier {
public:
  Multiplier(ThreadCode &c, const GemmBlock &block);
  virtual ~Multiplier() = default;

  int64_t numSums() const;
  /// Multiplies the tiles at `leftTile` and `rightTile` for k from `begin` to
  /// `end`, and adds the product to the sums. k counts from the beginning of
  /// the tiles.
  virtual void multiply(mlir::Value leftTile, mlir::Value rightTile,
                        int64_t begin, int64_t end,
                        llvm::MutableArrayRef<mlir::Value> sums) = 0;
  using SumBody = llvm::function_ref<void(mlir::Value row, mlir::Value column,
                                          llvm::ArrayRef<mlir::Value> values)>;
  /// Calls `body` for each group of adjacent sums, with the coordinates of the
  /// group's first sum in the tile.
  virtual void forSums(llvm::ArrayRef<mlir::Value> sums, SumBody body) = 0;
  /// The number of steps along k up to which RingLoop is unrolled. LLVM may
  /// unroll longer loops.
  virtual int64_t mostUnrolledSteps() const { return 0; }

protected:
  ThreadCode &c;
  const Tiling &tiling;
  TileShape left, right;
  mlir::Value lane;
  mlir::Value warpRow, warpColumn; ///< Where the warp's tile begins.
};

/// A tile of the operand that is summed along k.
struct SummedTile {
  mlir::Value memory; ///< Its address in shared memory; null if the loop copies
                      ///< tiles through registers.
  /// If the loop copies tiles through registers: the elements that this thread
  /// has read from global memory.
  llvm::ArrayRef<mlir::Value> elements;
};

/// Sums one operand along k (`GemmBlock::summed`). There is one sum for each of
/// the operand's rows or columns in the block's tile.
class TileSums {
public:
  TileSums(ThreadCode &c, const GemmBlock &block);
  virtual ~TileSums() = default;

  /// The number of f32 sums that a thread carries through the loop over k.
  virtual int64_t numSums() const = 0;
  /// Adds the elements of a tile to the sums.
  virtual void add(const SummedTile &tile,
                   llvm::MutableArrayRef<mlir::Value> sums) = 0;
  using SumBody = llvm::function_ref<mlir::LogicalResult(mlir::Value outer,
                                                         mlir::Value sum)>;
  /// Calls `body` for each sum of the operand along k that this thread has.
  /// `outer` is the sum's index in the tile: that of a row of A or of a column
  /// of B. The code that `body` emits runs only in threads that have a sum.
  virtual mlir::LogicalResult forSums(llvm::ArrayRef<mlir::Value> sums,
                                      SumBody body) = 0;

protected:
  ThreadCode &c;
  const Tiling &tiling;
  TileShape shape;
  mlir::Value thread;
};

/// The loop over k: copies the tiles of both operands to shared memory, and
/// multiplies them.
class GemmLoop {
public:
  GemmLoop(ThreadCode &c, const GemmBlock &block) : c(c), block(block) {}
  virtual ~GemmLoop() = default;

  /// Starts the copies of the first tiles. `elements` is the number of elements
  /// along k from the first tiles' beginning to the operands' end.
  virtual void start(mlir::Value elements) = 0;
  /// Emits the loop. Returns this thread's sums of the product. If `factorSums`
  /// is given, the thread's sums of an operand come next. This function may be
  /// called once in each branch of the emitted code: every call emits a whole
  /// loop, and only one branch runs.
  llvm::SmallVector<mlir::Value> emit(Multiplier &multiplier,
                                      TileSums *factorSums);

protected:
  using Values = llvm::SmallVector<mlir::Value>;
  /// Where the next copies of both operands' tiles begin, and the number of
  /// elements along k (`left`) from there to the operands' end.
  struct Source {
    Values pointers;
    mlir::Value left;
  };
  void advance(Source &source);
  /// Emits the loop. `carried` has the initial values of the sums.
  virtual Values emitSteps(Multiplier &multiplier, TileSums *factorSums,
                           Values carried) = 0;

  ThreadCode &c;
  const GemmBlock &block;
  Source next;
};

/// The loop over k that copies tiles directly to a ring of stages in shared
/// memory, by cp.async.
class RingLoop : public GemmLoop {
public:
  RingLoop(ThreadCode &c, const GemmBlock &block);

  void start(mlir::Value elements) override;

private:
  void startCopies(const Source &source, mlir::Value target);
  /// Emits one step, and returns what the next one takes.
  Values emitStep(Multiplier &multiplier, TileSums *factorSums,
                  mlir::Value step, const Values &carried);
  Values emitSteps(Multiplier &multiplier, TileSums *factorSums,
                   Values carried) override;

  AsyncCopy left, right;
};

/// A tile of f32 sums in shared memory. Threads write it in the layout of
/// `Multiplier::forSums`, and read it by rows.
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
