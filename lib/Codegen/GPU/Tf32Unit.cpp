//===- Tf32Unit.cpp - Tensor cores that multiply tf32 ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The unit that multiplies f32 operands after rounding them to tf32, whose
// mantissa has ten bits (--matmul tf32). Tiles go through registers on their
// way to shared memory, so that each element is rounded once, not once in each
// warp that multiplies it.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// How the elements of a tile are distributed among the threads that fetch
/// them: in units of four adjacent elements along k. Adjacent lanes take units
/// of the same row of shared memory, so that their stores cover all banks. If
/// the operand's rows in global memory run along "outer", the dimension other
/// than k, a thread fetches four elements of each of four rows and transposes
/// them in registers.
struct FetchedUnits {
  static constexpr int64_t size = accessBytes / 4; ///< Elements of a unit.

  const TileShape &shape;
  int64_t threads;

  int64_t count() const {
    return shape.tileOuter * shape.tileK / threads / size;
  }
  /// Every so many adjacent lanes have units of the same row or column of the
  /// operand.
  int64_t lanesAlongK() const { return shape.tileK / size; }
  /// Returns the coordinates of the first element of a unit. `number` is the
  /// unit's index among those that `thread` fetches.
  TileCoordinates unit(ThreadCode &c, Value thread, int64_t number) const {
    int64_t together = shape.kContiguous ? 1 : size;
    int64_t perPass = threads / lanesAlongK() * together;
    return {c.mul(c.div(thread, lanesAlongK()), together),
            c.mul(c.rem(thread, lanesAlongK()), size),
            number / together * perPass + number % together, 0};
  }
};

/// Copies tiles through registers, where they are rounded.
class RoundingCopy : public TileCopy {
public:
  RoundingCopy(ThreadCode &c, const GemmBlock &block,
               const GemmOperand &operand)
      : TileCopy(c, block, operand), units{shape, threads} {
    width = accessWidth(shape);
    beginAt(units.unit(c, thread, 0));
  }

  /// Loads this thread's elements of a tile into registers, in f32. `left` is
  /// the number of elements along k from the tile's beginning to the operand's
  /// end along k.
  SmallVector<Value> fetch(Value source, Value left);
  /// Rounds the fetched values and stores them in the tile at `target`.
  void put(ArrayRef<Value> values, Value target);

private:
  SmallVector<Value> fetchFour(const TileCoordinates &place, Value source,
                               Value left);

  FetchedUnits units;
};

/// The loop over k, with two stages. While the first half of a step is
/// multiplied, a thread loads its part of the next left tile into registers.
/// During the second half it loads its part of the next right tile.
class RoundingLoop : public GemmLoop {
public:
  RoundingLoop(ThreadCode &c, const GemmBlock &block)
      : GemmLoop(c, block), left(c, block, block.left),
        right(c, block, block.right) {}

  void start(Value elements) override;

private:
  Values emitSteps(Multiplier &multiplier, TileSums *factorSums,
                   Values carried) override;

  RoundingCopy left, right;
  /// If an operand is also summed along k: the elements of the operand's first
  /// tile that this thread fetched. `emitSteps` adds them to the operand's sums
  /// before the loop, since an iteration of the loop adds only the tile that it
  /// fetches for the next iteration.
  Values firstOfFactor;
};

/// Each thread adds the elements that it fetches, before it rounds them. It has
/// one sum for each of its units.
class FetchedSums : public TileSums {
public:
  FetchedSums(ThreadCode &c, const GemmBlock &block)
      : TileSums(c, block), units{shape, tiling.threads()} {}

  int64_t numSums() const override { return units.count(); }
  void add(const SummedTile &tile, MutableArrayRef<Value> sums) override;
  LogicalResult forSums(ArrayRef<Value> sums, SumBody body) override;

private:
  Value acrossLanes(Value sum);

  FetchedUnits units;
};
} // namespace

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Loads four elements of a row in global memory, by accesses as wide as the
/// row's alignment allows.
SmallVector<Value> RoundingCopy::fetchFour(const TileCoordinates &place,
                                           Value source, Value left) {
  SmallVector<Value> values;
  for (int64_t i = 0; i < FetchedUnits::size; i += width) {
    TileCoordinates at = place;
    (shape.kContiguous ? at.kMoved : at.outerMoved) += i;
    Value from = pointer(source, at);
    Value inside = isInside(at, left);
    if (inside)
      from = c.create<arith::SelectOp>(inside, from, global);
    // If a row may end within the `width` elements of one access, check each
    // element: padding after the row may hold NaN.
    bool mayEnd = shape.kContiguous && shape.k % width;
    for (Value value : c.elements(c.loadVector(shape.stored, width, from))) {
      values.push_back(c.orZero(mayEnd ? isInside(at, left) : inside, value));
      ++at.kMoved;
    }
  }
  return values;
}

SmallVector<Value> RoundingCopy::fetch(Value source, Value left) {
  constexpr int64_t size = FetchedUnits::size;
  SmallVector<Value> values;
  if (shape.kContiguous) {
    for (int64_t number = 0; number < units.count(); ++number)
      llvm::append_range(
          values, fetchFour(units.unit(c, thread, number), source, left));
    return values;
  }
  for (int64_t first = 0; first < units.count(); first += size) {
    SmallVector<Value> rows;
    TileCoordinates at = units.unit(c, thread, first);
    for (; at.kMoved < size; ++at.kMoved)
      llvm::append_range(rows, fetchFour(at, source, left));
    for (int64_t column = 0; column < size; ++column)
      for (int64_t row = 0; row < size; ++row)
        values.push_back(rows[row * size + column]);
  }
  return values;
}

void RoundingCopy::put(ArrayRef<Value> values, Value target) {
  for (int64_t number = 0; number < units.count(); ++number) {
    SmallVector<Value> rounded;
    for (Value value :
         values.slice(number * FetchedUnits::size, FetchedUnits::size))
      rounded.push_back(
          c.call("llvm.nvvm.f2tf32.rna", c.builder.getI32Type(), value));
    c.storeVector(rounded,
                  tileAddress(c, shape, target, units.unit(c, thread, number)));
  }
}

//===----------------------------------------------------------------------===//
// Loop
//===----------------------------------------------------------------------===//

void RoundingLoop::start(Value elements) {
  next = {{left.begin(), right.begin()}, elements};
  Values ofLeft = left.fetch(next.pointers[0], next.left);
  Values ofRight = right.fetch(next.pointers[1], next.left);
  left.put(ofLeft, block.memory);
  right.put(ofRight, c.at(block.memory, block.left.shape.tileBytes()));
  firstOfFactor = block.sumsLeft ? ofLeft : ofRight;
  advance(next);
}

/// The last step has no next tile: it is emitted after the loop, so that the
/// loop's body needs no branch.
GemmLoop::Values RoundingLoop::emitSteps(Multiplier &multiplier,
                                         TileSums *factorSums, Values carried) {
  OpBuilder &b = c.builder;
  const Tiling &tiling = block.tiling;
  int64_t leftBytes = block.left.shape.tileBytes();
  int64_t numProducts = multiplier.numSums(), numSums = carried.size();
  if (factorSums)
    factorSums->add({Value(), firstOfFactor},
                    MutableArrayRef<Value>(carried).drop_front(numProducts));
  llvm::append_range(carried, next.pointers);
  carried.append({next.left, c.constant(0)});
  auto multiply = [&](Value reading, int64_t begin, int64_t end,
                      MutableArrayRef<Value> sums) {
    Value tile = c.at(block.memory, reading);
    multiplier.multiply(tile, c.at(tile, leftBytes), begin, end,
                        sums.take_front(numProducts));
  };
  auto loop =
      b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(tiling.steps() - 1),
                           c.constant(1), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Values sums(loop.getRegionIterArgs().take_front(numSums));
    auto rest = loop.getRegionIterArgs().drop_front(numSums);
    Source source = {{rest[0], rest[1]}, rest[2]};
    Value reading = rest[3];
    Value writing = c.sub(c.constant(block.stageBytes()), reading);
    c.barrier(); // For the same reason as in RingLoop::emitSteps.
    for (bool isLeft : {true, false}) {
      RoundingCopy &copy = isLeft ? left : right;
      Values values = copy.fetch(source.pointers[isLeft ? 0 : 1], source.left);
      int64_t half = tiling.k / 2, begin = isLeft ? 0 : half;
      multiply(reading, begin, begin + half, sums);
      if (factorSums && block.sumsLeft == isLeft)
        factorSums->add({Value(), values},
                        MutableArrayRef<Value>(sums).drop_front(numProducts));
      Value target = c.at(block.memory, writing);
      copy.put(values, isLeft ? target : c.at(target, leftBytes));
    }
    advance(source);
    llvm::append_range(sums, source.pointers);
    sums.append({source.left, writing});
    b.create<scf::YieldOp>(c.loc, sums);
  }
  Values sums(loop.getResults().take_front(numSums));
  c.barrier();
  multiply(loop.getResults().back(), 0, tiling.k, sums);
  return sums;
}

//===----------------------------------------------------------------------===//
// Sums of an operand
//===----------------------------------------------------------------------===//

void FetchedSums::add(const SummedTile &tile, MutableArrayRef<Value> sums) {
  for (auto [number, sum] : llvm::enumerate(sums)) {
    auto values =
        tile.elements.slice(number * FetchedUnits::size, FetchedUnits::size);
    Value ofUnit = values[0];
    for (Value value : values.drop_front())
      ofUnit = c.create<arith::AddFOp>(ofUnit, value);
    sum = c.create<arith::AddFOp>(sum, ofUnit);
  }
}

/// Adds up `sum` over the adjacent lanes that fetch different elements along k
/// of the same row or column of the operand.
Value FetchedSums::acrossLanes(Value sum) {
  return gpu::acrossLanes(
      c.builder, c.loc, sum, units.lanesAlongK(),
      [&](Value a, Value b) { return c.create<arith::AddFOp>(a, b); });
}

/// Adjacent lanes hold the same sums, so that only the first of them passes its
/// sums to `body`.
LogicalResult FetchedSums::forSums(ArrayRef<Value> sums, SumBody body) {
  SmallVector<Value> totals(sums);
  for (Value &total : totals)
    total = acrossLanes(total);
  InsideIf choice(c, c.less(c.rem(thread, units.lanesAlongK()), 1));
  for (auto [number, total] : llvm::enumerate(totals)) {
    TileCoordinates place = units.unit(c, thread, number);
    if (failed(body(c.add(place.outer, place.outerMoved), total)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The unit
//===----------------------------------------------------------------------===//

namespace {
class Tf32Unit : public MmaUnit {
public:
  bool takes(Type left, Type right, config::Matmul matmul) const override {
    return matmul == config::Matmul::Tf32 && left.isF32() && right.isF32();
  }
  double tolerance() const override { return 0x1p-8; }
  ArrayRef<TilingCandidate> tilings() const override {
    static constexpr TilingCandidate all[] = {{{128, 128, 32, 2, 2, 2}, 1},
                                              {{64, 64, 32, 2, 2, 2}, 0.5}};
    return all;
  }
  TilingCosts costs() const override { return {400, 2e6}; }
  /// Rows run along k, since ldmatrix cannot transpose elements of 32 bits.
  /// With the padding, the 16-byte units at the same index of eight consecutive
  /// rows are in different banks.
  TileLayout layout(bool) const override {
    return {/*elementBytes=*/4, /*rowsAlongK=*/true, /*isPermuted=*/false,
            /*padding=*/16};
  }
  int64_t depth() const override { return 8; }
  void multiply(ThreadCode &c, ArrayRef<Value> left, ArrayRef<Value> right,
                MutableArrayRef<Value> sum) const override {
    callMma(c, "llvm.nvvm.mma.m16n8k8.row.col.tf32", left, right, sum);
  }
  std::unique_ptr<GemmLoop> createLoop(ThreadCode &c,
                                       const GemmBlock &block) const override {
    return std::make_unique<RoundingLoop>(c, block);
  }
  std::unique_ptr<TileSums> createSums(ThreadCode &c,
                                       const GemmBlock &block) const override {
    return std::make_unique<FetchedSums>(c, block);
  }
};
} // namespace

const MultiplyUnit &tf32Unit() {
  static const Tf32Unit unit;
  return unit;
}

} // namespace heddle::gpu
