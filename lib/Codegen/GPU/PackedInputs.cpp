//===- PackedInputs.cpp - Inputs that are rounded to int8 -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds the inputs of products with quantized weights, as nn.packed_linear
// says of `input_block`.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "PackedTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

int64_t RoundedInputs::scratchBytes() const {
  return shape.inputBlock > 0 ? codeBytes() + shape.rows * scalesOfRow() * 4
                              : 0;
}

Value RoundedInputs::codes(KernelFrame &frame, ThreadCode &c) const {
  return c.globalPointer(
      frame.scratch(0, {shape.rows, codeStride()}, c.builder.getBF16Type()));
}

Value RoundedInputs::scalePointer(KernelFrame &frame, ThreadCode &c, Value row,
                                  Value block) const {
  Value scales = frame.scratch(codeBytes(), {shape.rows, scalesOfRow()},
                               c.builder.getF32Type());
  Value element = c.add(c.mul(c.wide(row), scalesOfRow()), c.wide(block));
  return c.at(c.globalPointer(scales), c.mul(element, 4));
}

/// Emits code with which a warp rounds a block of inputs of a row, as
/// nn.packed_linear says.
void RoundedInputs::roundBlock(KernelFrame &frame, ThreadCode &c, Value input,
                               Value row, Value block) const {
  constexpr float most = 127, least = 0x1p-100F;
  OpBuilder &b = c.builder;
  auto number = [&](float value) -> Value {
    return b.create<arith::ConstantOp>(c.loc, b.getF32FloatAttr(value));
  };
  Value lane = c.rem(c.threadId(), warpSize);
  int64_t length = shape.weight.groupLength(),
          perGroup = shape.inputBlocksOfGroup();
  Value groupFirst = c.mul(c.div(block, perGroup), length);
  Value first = c.mul(c.rem(block, perGroup), shape.inputBlock);
  Value end =
      c.add(groupFirst, c.create<arith::MinSIOp>(c.add(first, shape.inputBlock),
                                                 c.constant(length)));
  first = c.add(c.add(groupFirst, first), lane);
  Value buffer = frame.argumentBuffer(input);
  int64_t stride = *dist::leadingDimension(cast<MemRefType>(buffer.getType()));
  auto pointerAt = [&](Value memory, int64_t leading, Value at, int64_t bytes) {
    Value element = c.add(c.mul(c.wide(row), leading), c.wide(at));
    return c.at(memory, c.mul(element, bytes));
  };
  Value rows = c.globalPointer(buffer);
  Type type = getElementTypeOrSelf(input.getType());
  auto load = [&](Value at) {
    return c.widen(
        c.load(type, pointerAt(rows, stride, at, dist::byteSize(type))));
  };
  auto loop = b.create<scf::ForOp>(c.loc, first, end, c.constant(warpSize),
                                   ValueRange{number(least)});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value size = c.create<math::AbsFOp>(load(loop.getInductionVar()));
    Value larger =
        c.create<arith::MaximumFOp>(size, loop.getRegionIterArgs()[0]);
    b.create<scf::YieldOp>(c.loc, larger);
  }
  Value largest = loop.getResult(0);
  for (int64_t offset = 1; offset < warpSize; offset *= 2)
    largest =
        c.create<arith::MaximumFOp>(largest, exchange(frame, largest, offset));
  Value factor = c.create<arith::DivFOp>(number(most), largest);
  Value codesOfRows = codes(frame, c);
  auto stores = b.create<scf::ForOp>(c.loc, first, end, c.constant(warpSize));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(stores.getBody());
    Value at = stores.getInductionVar();
    Value rounded =
        c.create<math::RoundEvenOp>(c.create<arith::MulFOp>(load(at), factor));
    c.store(c.narrow(rounded, b.getBF16Type()),
            pointerAt(codesOfRows, codeStride(), at, 2));
  }
  InsideIf isFirst(c, c.less(lane, 1));
  c.store(c.create<arith::DivFOp>(largest, number(most)),
          scalePointer(frame, c, row, block));
}

} // namespace heddle::gpu
