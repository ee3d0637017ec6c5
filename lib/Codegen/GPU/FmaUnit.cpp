//===- FmaUnit.cpp - FMA in f32 -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The unit that multiplies f32 operands by FMA, without rounding them. It also
// takes operands of other types, which are converted to f32 on the way to
// shared memory.
//
//===----------------------------------------------------------------------===//

#include "MultiplyUnit.h"
#include "PagedTiles.h"
#include "WarpTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// A warp's tile in one step: each lane has a group of 4 x 4 sums.
static constexpr int64_t fmaGroup = 4, fmaM = 4 * fmaGroup, fmaN = 8 * fmaGroup;

namespace {
/// Multiplies two tiles by FMA. The lanes of a warp are arranged as 4 x 8.
class FmaMultiplier : public Multiplier {
public:
  using Multiplier::Multiplier;

  void multiply(Value leftTile, Value rightTile, int64_t begin, int64_t end,
                MutableArrayRef<Value> sums) override {
    for (int64_t k = begin; k < end; ++k)
      multiplyStep(leftTile, rightTile, k, sums);
  }
  void forSums(ArrayRef<Value> sums, SumBody body) override;

private:
  void multiplyStep(Value leftTile, Value rightTile, int64_t k,
                    MutableArrayRef<Value> sums);
  SmallVector<Value> loadGroups(const TileShape &shape, Value tile, Value outer,
                                int64_t groups, int64_t groupStep, int64_t k);
  int64_t groupsM() const { return tiling.warpM() / fmaM; }
  int64_t groupsN() const { return tiling.warpN() / fmaN; }
};

/// Each thread adds the elements of one column of the tile. A block's first
/// threads have one column each; its other threads have none.
class TileColumnSums : public TileSums {
public:
  using TileSums::TileSums;

  int64_t numSums() const override { return 1; }
  void add(const SummedTile &tile, MutableArrayRef<Value> sums) override;
  LogicalResult forSums(ArrayRef<Value> sums, SumBody body) override {
    InsideIf choice(c, c.less(thread, shape.tileOuter));
    return body(thread, sums[0]);
  }
};
} // namespace

/// Loads several groups of four adjacent elements from row `k` of the tile. The
/// first group begins at column `outer`, and each next group begins `groupStep`
/// columns later. If 16-byte units are permuted (by xor), the address of each
/// group follows from the first group's address by flipping bits. This works
/// because tiles are aligned: the bits that distinguish the groups are zero in
/// the first group's address.
SmallVector<Value> FmaMultiplier::loadGroups(const TileShape &shape, Value tile,
                                             Value outer, int64_t groups,
                                             int64_t groupStep, int64_t k) {
  Value first = tileAddress(c, shape, tile, {outer, c.constant(0)});
  SmallVector<Value> values;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t unit = group * groupStep / fmaGroup, key = 0;
    if (shape.layout.isPermuted) {
      key = (unit ^ k) % mixedUnits;
      unit -= unit % mixedUnits;
    }
    Value pointer = c.at(c.flip(first, key * accessBytes),
                         k * shape.rowBytes() + unit * accessBytes);
    llvm::append_range(values, c.elements(c.loadVector(c.builder.getF32Type(),
                                                       fmaGroup, pointer)));
  }
  return values;
}

void FmaMultiplier::multiplyStep(Value leftTile, Value rightTile, int64_t k,
                                 MutableArrayRef<Value> sums) {
  Value row = c.add(warpRow, c.mul(c.div(lane, 8), fmaGroup));
  Value column = c.add(warpColumn, c.mul(c.rem(lane, 8), fmaGroup));
  SmallVector<Value> a = loadGroups(left, leftTile, row, groupsM(), fmaM, k);
  SmallVector<Value> b =
      loadGroups(right, rightTile, column, groupsN(), fmaN, k);
  for (auto [i, x] : llvm::enumerate(a))
    for (auto [j, y] : llvm::enumerate(b)) {
      Value &sum = sums[i * b.size() + j];
      sum = c.builder.create<LLVM::FMAOp>(c.loc, x, y, sum);
    }
}

void FmaMultiplier::forSums(ArrayRef<Value> sums, SumBody body) {
  Value row = c.add(warpRow, c.mul(c.div(lane, 8), fmaGroup));
  Value column = c.add(warpColumn, c.mul(c.rem(lane, 8), fmaGroup));
  int64_t columns = groupsN() * fmaGroup;
  for (int64_t i = 0; i < groupsM() * fmaGroup; ++i)
    for (int64_t j = 0; j < groupsN(); ++j)
      body(c.add(row, i / fmaGroup * fmaM + i % fmaGroup),
           c.add(column, j * fmaN),
           sums.slice(i * columns + j * fmaGroup, fmaGroup));
}

void TileColumnSums::add(const SummedTile &tile, MutableArrayRef<Value> sums) {
  OpBuilder &b = c.builder;
  Value &sum = sums[0];
  auto choice =
      b.create<scf::IfOp>(c.loc, sum.getType(), c.less(thread, shape.tileOuter),
                          /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    // Adds by halves (pairwise), which accumulates fewer rounding errors.
    SmallVector<Value> column;
    for (int64_t k = 0; k < tiling.k; ++k) {
      TileCoordinates place = {thread, c.constant(0), 0, k};
      column.push_back(
          c.load(sum.getType(), tileAddress(c, shape, tile.memory, place)));
    }
    for (size_t half = column.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i)
        column[i] = c.create<arith::AddFOp>(column[i], column[i + half]);
    Value next = c.create<arith::AddFOp>(sum, column[0]);
    b.create<scf::YieldOp>(c.loc, next);
    b.setInsertionPointToStart(choice.elseBlock());
    b.create<scf::YieldOp>(c.loc, sum);
  }
  sum = choice.getResult(0);
}

namespace {
class FmaUnit : public MultiplyUnit {
public:
  bool takes(Type, Type, config::Matmul) const override { return true; }
  ArrayRef<TilingCandidate> tilings() const override {
    static constexpr TilingCandidate all[] = {{{128, 128, 8, 4, 2, 3}, 1},
                                              {{64, 64, 16, 4, 2, 3}, 0.6}};
    return all;
  }
  TilingCosts costs() const override { return {80, 2.5e5}; }
  /// Rows run along "outer", since a lane reads vectors along "outer".
  TileLayout layout(bool kContiguous) const override {
    return {/*elementBytes=*/4, /*rowsAlongK=*/false,
            /*isPermuted=*/kContiguous};
  }
  std::unique_ptr<Multiplier>
  createMultiplier(ThreadCode &c, const GemmBlock &block) const override {
    return std::make_unique<FmaMultiplier>(c, block);
  }
  std::unique_ptr<TileSums> createSums(ThreadCode &c,
                                       const GemmBlock &block) const override {
    return std::make_unique<TileColumnSums>(c, block);
  }
  std::unique_ptr<WarpTiles> createWarpTiles(KernelFrame &frame, Type element,
                                             int64_t width) const override {
    return createFmaTiles(frame, element, width);
  }
  std::unique_ptr<PagedTiles>
  createPagedTiles(ThreadCode &c, const PagedShape &shape) const override {
    return createPagedFmaTiles(c, shape);
  }
};
} // namespace

const MultiplyUnit &fmaUnit() {
  static const FmaUnit unit;
  return unit;
}

} // namespace heddle::gpu
