//===- LanePatterns.cpp - Common parts of adjacent lanes ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simplifies the index arithmetic of random numbers. Philox draws random
// numbers in blocks of four: the number of element e is word e % 4 of block e /
// 4. If the first index of a vector of adjacent elements is a multiple of four,
// four adjacent lanes need the same block. These patterns simplify the shifts
// and masks of the lanes' indices until this is visible, so that the code of a
// block is emitted once, not once for each lane.
//
//===----------------------------------------------------------------------===//

#include "LanePatterns.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace heddle::gpu {

/// Returns a lower bound of the number of trailing zero bits of an integer.
static unsigned trailingZeros(Value value, unsigned depth = 0) {
  constexpr unsigned many = 32, deepest = 16;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return std::min(many, constant.countr_zero());
  if (depth == deepest)
    return 0;
  auto of = [&](Value operand) { return trailingZeros(operand, depth + 1); };
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument != loop.getInductionVar())
      return 0;
    return std::min(of(loop.getLowerBound()), of(loop.getStep()));
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::AddIOp>(op))
    return std::min(of(op->getOperand(0)), of(op->getOperand(1)));
  if (isa<arith::MulIOp>(op))
    return std::min(many, of(op->getOperand(0)) + of(op->getOperand(1)));
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
          arith::ExtUIOp, arith::TruncIOp>(op))
    return of(op->getOperand(0));
  return 0;
}

namespace {
/// A vector that is the sum of the scalar `base`, which is the same for all
/// lanes, and the constant vector `numbers`, for example (0, 1, 2, 3).
struct Lanes {
  static std::optional<Lanes> match(Value vector) {
    auto add = vector.getDefiningOp<arith::AddIOp>();
    if (!add || !isa<VectorType>(vector.getType()))
      return std::nullopt;
    for (bool isSwapped : {false, true}) {
      Lanes lanes;
      auto broadcast =
          add->getOperand(isSwapped).getDefiningOp<vector::BroadcastOp>();
      if (!broadcast || isa<VectorType>(broadcast.getSource().getType()) ||
          !matchPattern(add->getOperand(!isSwapped),
                        m_Constant(&lanes.numbers)))
        continue;
      lanes.base = broadcast.getSource();
      return lanes;
    }
    return std::nullopt;
  }

  /// Returns the constant `numbers` with `change` applied to each element.
  template <typename Change> DenseElementsAttr change(Change change) const {
    SmallVector<APInt> changed;
    for (const APInt &number : numbers.getValues<APInt>())
      changed.push_back(change(number));
    return DenseElementsAttr::get(cast<ShapedType>(numbers.getType()), changed);
  }

  Value base;
  DenseIntElementsAttr numbers;
};

/// Rewrites (base + numbers) >> bits to (base >> bits) + (numbers >> bits), if
/// the lowest `bits` bits of `base` are zero. `base` is a scalar, and `numbers`
/// a constant vector with one integer for each lane, for example (0, 1, 2, 3).
struct ShiftLanes : OpRewritePattern<arith::ShRUIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ShRUIOp op,
                                PatternRewriter &rewriter) const override {
    auto lanes = Lanes::match(op.getLhs());
    DenseIntElementsAttr by;
    if (!lanes || !matchPattern(op.getRhs(), m_Constant(&by)) || !by.isSplat())
      return failure();
    auto bits = by.getSplatValue<APInt>().getZExtValue();
    if (bits > trailingZeros(lanes->base))
      return failure();
    Location loc = op.getLoc();
    Value amount = rewriter.create<arith::ConstantOp>(
        loc, rewriter.getIntegerAttr(lanes->base.getType(), bits));
    Value base = rewriter.create<arith::ShRUIOp>(loc, lanes->base, amount);
    Value numbers = rewriter.create<arith::ConstantOp>(
        loc, lanes->change([&](APInt number) { return number.lshr(bits); }));
    rewriter.replaceOpWithNewOp<arith::AddIOp>(
        op, rewriter.create<vector::BroadcastOp>(loc, op.getType(), base),
        numbers);
    return success();
  }
};

/// Rewrites (base + numbers) & mask to the constant (numbers & mask), if the
/// mask's highest bit is among the trailing zero bits of `base`. `base` is a
/// scalar, and `numbers` a constant vector with one integer for each lane.
struct MaskLanes : OpRewritePattern<arith::AndIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AndIOp op,
                                PatternRewriter &rewriter) const override {
    auto lanes = Lanes::match(op.getLhs());
    DenseIntElementsAttr by;
    if (!lanes || !matchPattern(op.getRhs(), m_Constant(&by)) || !by.isSplat())
      return failure();
    auto mask = by.getSplatValue<APInt>();
    if (mask.getActiveBits() > trailingZeros(lanes->base))
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(
        op, lanes->change([&](const APInt &number) { return number & mask; }));
    return success();
  }
};
} // namespace

void populateLanePatterns(RewritePatternSet &patterns) {
  patterns.add<ShiftLanes, MaskLanes>(patterns.getContext());
}

} // namespace heddle::gpu
