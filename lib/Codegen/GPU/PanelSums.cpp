//===- PanelSums.cpp - The sums of a product in a panel -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the loop over the blocks of a panel. The warps of a block divide k.
// Each reads its part of the panel once, from the first byte to the last, and
// writes its sums to shared memory, where they are added in order.
//
//===----------------------------------------------------------------------===//

#include "PackedTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

PanelSums::PanelSums(KernelFrame &frame, ThreadCode &c,
                     const FragmentShape &shape,
                     const codegen::Product &product, Value panel,
                     Value firstRow)
    : frame(frame), c(c), shape(shape), product(product), rounded(shape),
      panel(panel), firstRow(firstRow) {
  createUnit();
  createRing();
}

void PanelSums::createUnit() {
  Type bf16 = c.builder.getBF16Type();
  if (shape.inputBlock > 0) {
    // int8 codes of inputs are exact in bf16.
    RowReader rows(c, shape, rounded.codes(frame, c), bf16,
                   rounded.codeStride());
    unit = createPackedMma(c, shape, rows, bf16);
    return;
  }
  Value buffer = frame.argumentBuffer(product.a);
  int64_t stride = *dist::leadingDimension(cast<MemRefType>(buffer.getType()));
  Type type = getElementTypeOrSelf(product.a.getType());
  RowReader rows(c, shape, c.globalPointer(buffer), type, stride);
  unit = shape.isMma ? createPackedMma(c, shape, rows, type)
                     : createPackedFma(c, shape, rows);
}

/// The quantization group of a half. The padding after the last group counts as
/// part of it.
Value PanelSums::groupOf(Value half) {
  if (shape.groups == 1)
    return c.constant(0);
  Value group = c.div(half, shape.halvesOfGroup);
  if (shape.groups * shape.halvesOfGroup == shape.weight.blocks() * 2)
    return group;
  return c.create<arith::MinSIOp>(group, c.constant(shape.groups - 1));
}

/// Creates the ring. It has scales and zero points if there is more than one
/// quantization group.
void PanelSums::createRing() {
  SmallVector<PackedRing::Table, 2> tables;
  auto add = [&](Value table, bool isLast) {
    if (table && shape.groups > 1)
      tables.push_back({c.globalPointer(frame.argumentBuffer(table)),
                        getElementTypeOrSelf(table.getType()), isLast});
  };
  add(product.scales, /*isLast=*/true);
  add(product.zeros, /*isLast=*/false);
  ring = std::make_unique<PackedRing>(
      c, shape, *unit, c.globalPointer(frame.argumentBuffer(product.b)), panel,
      firstRow, tables);
}

/// Loads the scales (`table` 0) or zero points (1) of this lane's two outputs
/// for the group of `half`, as f32.
SmallVector<Value> PanelSums::ofOutputs(int64_t table, Value half) {
  if (shape.groups > 1 && ring->hasTables())
    return ring->ofOutputs(table, half);
  Value tensor = table == 0 ? product.scales : product.zeros;
  Type type = getElementTypeOrSelf(tensor.getType());
  int64_t bytes = dist::byteSize(type);
  Value row = c.add(c.mul(c.wide(panel), shape.groups), c.wide(groupOf(half)));
  Value element =
      c.add(c.mul(row, FragmentShape::panelOutputs), c.wide(unit->output()));
  Value pointer = c.at(c.globalPointer(frame.argumentBuffer(tensor)),
                       c.mul(element, bytes));
  return {c.widen(c.load(type, pointer)),
          c.widen(c.load(type, c.at(pointer, 8 * bytes)))};
}

/// Adds scaled sums, the first half of `carried`, to the totals, its second
/// half, and sets the sums to zero. `half` is the last half of the sums.
void PanelSums::addScaled(Value half, MutableArrayRef<Value> carried) {
  int64_t numSums = unit->numSums();
  Value group = groupOf(half);
  SmallVector<Value> scales;
  if (shape.groups > 1)
    scales = ofOutputs(0, half);
  Value inputBlock;
  if (shape.inputBlock > 0) {
    Value inGroup = c.sub(half, c.mul(group, shape.halvesOfGroup));
    inputBlock = c.add(c.mul(group, shape.inputBlocksOfGroup()),
                       c.div(inGroup, shape.halvesOfScale));
    // The padding after the last group counts as part of its last block.
    inputBlock = c.create<arith::MinSIOp>(
        inputBlock, c.constant(rounded.scalesOfRow() - 1));
  }
  auto sums = carried.take_front(numSums), totals = carried.drop_front(numSums);
  size_t next = 0;
  unit->forSums(sums, [&](Value row, int64_t output, Value &sum) {
    Value factor = scales.empty() ? Value() : scales[output];
    if (inputBlock) {
      Value inTensor = c.create<arith::MinSIOp>(c.add(firstRow, row),
                                                c.constant(shape.rows - 1));
      Value ofInput =
          c.load(c.builder.getF32Type(),
                 rounded.scalePointer(frame, c, inTensor, inputBlock));
      factor = factor ? c.create<arith::MulFOp>(factor, ofInput) : ofInput;
    }
    Value &total = totals[next++];
    total = c.create<math::FmaOp>(sum, factor, total);
    sum = c.zero(c.builder.getF32Type());
  });
}

/// Scales sums if the group or block of rounded inputs ends with `lastHalf`.
SmallVector<Value> PanelSums::scaleSums(Value lastHalf,
                                        SmallVector<Value> carried) {
  OpBuilder &b = c.builder;
  int64_t step = shape.scalesBlocks() ? 2 : 1;
  if (shape.halvesOfScale == step) {
    addScaled(lastHalf, carried);
    return carried;
  }
  Value end = c.add(
      shape.groups > 1 ? c.rem(lastHalf, shape.halvesOfGroup) : lastHalf, 1);
  Value ends = c.less(c.rem(end, shape.halvesOfScale), 1);
  if (shape.halvesOfGroup % shape.halvesOfScale != 0)
    ends = c.create<arith::OrIOp>(
        ends, c.less(c.constant(shape.halvesOfGroup - 1), end));
  auto choice = b.create<scf::IfOp>(c.loc, ValueRange(carried).getTypes(), ends,
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(c.loc, carried);
  b.setInsertionPointToStart(choice.thenBlock());
  addScaled(lastHalf, carried);
  b.create<scf::YieldOp>(c.loc, carried);
  return SmallVector<Value>(choice.getResults());
}

/// Multiplies `words`, two for each half from `half` on.
SmallVector<Value> PanelSums::emitHalves(ArrayRef<Value> words, Value half,
                                         SmallVector<Value> carried) {
  if (product.zeros && shape.groups > 1 && !keepsZeros())
    unit->setZeros(ofOutputs(1, half));
  unit->multiply(words, firstRow, half,
                 MutableArrayRef(carried).take_front(unit->numSums()));
  if (shape.halvesOfScale == 0)
    return carried;
  return scaleSums(c.add(half, static_cast<int64_t>(words.size()) / 2 - 1),
                   std::move(carried));
}

/// Returns the zero points for `block`: new ones if a group begins with it,
/// else those of the block before it, `carried`.
SmallVector<Value> PanelSums::zerosOf(Value block, ValueRange carried) {
  OpBuilder &b = c.builder;
  Value begins = c.less(c.rem(block, shape.halvesOfGroup / 2), 1);
  auto choice = b.create<scf::IfOp>(c.loc, carried.getTypes(), begins,
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  b.create<scf::YieldOp>(c.loc, ofOutputs(1, c.mul(block, 2)));
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(c.loc, carried);
  return SmallVector<Value>(choice.getResults());
}

/// Multiplies one block of the panel, whose words the ring has.
SmallVector<Value> PanelSums::emitBlock(Value block,
                                        SmallVector<Value> carried) {
  SmallVector<Value> words = ring->words();
  Value half = c.mul(block, 2);
  if (shape.scalesBlocks())
    return emitHalves(words, half, std::move(carried));
  carried = emitHalves(ArrayRef(words).take_front(2), half, std::move(carried));
  return emitHalves(ArrayRef(words).drop_front(2), c.add(half, 1),
                    std::move(carried));
}

/// Emits this warp's part of k. Returns the sums, scaled if the shape has
/// several scales.
SmallVector<Value> PanelSums::emitBlocks(Value rings) {
  OpBuilder &b = c.builder;
  Value warp = c.div(c.threadId(), warpSize);
  int64_t units = llvm::divideCeil(shape.weight.blocks(), shape.blocksOfUnit);
  auto boundary = [&](Value number) {
    Value block =
        c.mul(c.div(c.mul(number, units), shape.parts), shape.blocksOfUnit);
    return c.create<arith::MinSIOp>(block, c.constant(shape.weight.blocks()));
  };
  Value first = boundary(warp), end = boundary(c.add(warp, 1));
  if (product.zeros && shape.groups == 1)
    unit->setZeros(ofOutputs(1, c.constant(0)));
  ring->start(rings, first, end);
  // The loop carries offsets of slots, kept zero points, and sums.
  int64_t numSums = unit->numSums(), numZeros = keepsZeros() ? 2 : 0;
  SmallVector<Value> inits = ring->firstOffsets();
  inits.append((shape.halvesOfScale > 0 ? 2 * numSums : numSums) + numZeros,
               c.zero(b.getF32Type()));
  auto loop = b.create<scf::ForOp>(c.loc, first, end, c.constant(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value block = loop.getInductionVar();
  ValueRange carried = loop.getRegionIterArgs();
  SmallVector<Value> next = ring->advance(block, carried.take_front(2));
  if (numZeros > 0) {
    next.append(zerosOf(block, carried.slice(2, numZeros)));
    unit->setZeros(ArrayRef(next).drop_front(2));
  }
  next.append(
      emitBlock(block, SmallVector<Value>(carried.drop_front(2 + numZeros))));
  b.create<scf::YieldOp>(c.loc, next);
  return SmallVector<Value>(loop.getResults().take_back(numSums));
}

/// Writes this warp's sums to `memory`.
void PanelSums::putSums(Value memory, MutableArrayRef<Value> sums) {
  Value warp = c.div(c.threadId(), warpSize);
  Value ofWarp = c.at(memory, c.mul(warp, partStride() * 4));
  Value isOwn = unit->join(sums);
  auto put = [&] {
    unit->forSums(sums, [&](Value row, int64_t output, Value &sum) {
      Value place =
          c.add(c.mul(row, sumStride), c.add(unit->output(), output * 8));
      c.store(sum, c.at(ofWarp, c.mul(place, 4)));
    });
  };
  if (!isOwn)
    return put();
  InsideIf inside(c, isOwn);
  put();
}

void PanelSums::emit(Value rings, Value memory) {
  SmallVector<Value> sums = emitBlocks(rings);
  putSums(memory, sums);
}

SmallVector<Value> PanelSums::join(Value memory, Value row, Value output,
                                   int64_t width) {
  Type f32 = c.builder.getF32Type();
  Value first = c.at(memory, c.mul(c.add(c.mul(row, sumStride), output), 4));
  SmallVector<Value> sums;
  for (int64_t part = 0; part < shape.parts; ++part)
    for (int64_t i = 0; i < width; i += 4) {
      Value pointer = c.at(first, (part * partStride() + i) * 4);
      auto values =
          c.elements(c.loadVector(f32, std::min<int64_t>(width, 4), pointer));
      for (auto [at, value] : llvm::enumerate(values))
        if (part == 0)
          sums.push_back(value);
        else
          sums[i + at] = c.create<arith::AddFOp>(sums[i + at], value);
    }
  if (shape.groups != 1)
    return sums;
  Type type = getElementTypeOrSelf(product.scales.getType());
  Value scales = c.globalPointer(frame.argumentBuffer(product.scales));
  Value column = c.add(c.mul(panel, FragmentShape::panelOutputs), output);
  Value pointer = c.at(scales, c.mul(c.wide(column), dist::byteSize(type)));
  auto values = c.elements(c.loadVector(type, width, pointer));
  for (auto [sum, scale] : llvm::zip(sums, values))
    sum = c.create<arith::MulFOp>(sum, c.widen(scale));
  return sums;
}

} // namespace heddle::gpu
