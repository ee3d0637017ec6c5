//===- PanelSums.cpp - The sums of a product in a panel -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the loop over the blocks of a panel. k has parts, whose sums are added
// in order. With few rows, the warps of a block divide the parts: each reads
// its part of the panel once, from the first byte to the last, and writes its
// sums to shared memory, where they are added. With many rows, each warp has a
// panel of its own, multiplies one part after the other, and adds their sums in
// registers.
//
//===----------------------------------------------------------------------===//

#include "PackedTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

PanelSums::PanelSums(KernelFrame &frame, ThreadCode &c,
                     const FragmentShape &shape,
                     const codegen::Product &product, Value panels,
                     Value firstRow)
    : frame(frame), c(c), shape(shape), product(product), rounded(shape),
      panels(panels), firstRow(firstRow) {
  createUnit();
  createRing();
}

/// The index of a panel of this block among all panels. Those that are missing
/// in the last block are the last one, which is computed again, since all warps
/// copy rows.
Value PanelSums::panelAt(Value inBlock) {
  if (shape.warpsDivideK())
    return panels;
  Value panel = c.add(c.mul(panels, shape.panelsOfBlock), inBlock);
  return c.create<arith::MinSIOp>(panel, c.constant(shape.weight.panels() - 1));
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
  Type type = getElementTypeOrSelf(product.a.getType());
  auto readerOf = [&](Value buffer) {
    int64_t stride =
        *dist::leadingDimension(cast<MemRefType>(buffer.getType()));
    return RowReader(c, shape, c.globalPointer(buffer), type, stride);
  };
  RowReader rows = shape.keepsRows ? RowReader(c, shape, type)
                                   : readerOf(frame.argumentBuffer(product.a));
  unit = shape.isMma ? createPackedMma(c, shape, rows, type)
                     : createPackedFma(c, shape, rows);
}

/// The quantization group of a half. The padding after the last group counts as
/// part of it.
Value PanelSums::groupOf(HalfIndex half) {
  if (shape.groups == 1)
    return c.constant(0);
  Value group = c.div(shape.number(c, half), shape.halvesOfGroup);
  if (shape.groups * shape.halvesOfGroup == shape.weight.blocks() * 2)
    return group;
  return c.create<arith::MinSIOp>(group, c.constant(shape.groups - 1));
}

/// Creates the ring. It has scales and zero points if there is more than one
/// quantization group.
void PanelSums::createRing() {
  SmallVector<PackedRing::Table, 2> tables;
  for (Value table : {product.scales, product.zeros})
    if (table && shape.groups > 1)
      tables.push_back({c.globalPointer(frame.argumentBuffer(table)),
                        getElementTypeOrSelf(table.getType())});
  ring = std::make_unique<PackedRing>(
      c, shape, *unit, c.globalPointer(frame.argumentBuffer(product.b)),
      panelAt(c.div(c.threadId(), warpSize)), firstRow, tables);
}

/// Loads the scales (`table` 0) or zero points (1) of this lane's outputs for
/// the group of `half`, as f32: two of each panel. In global memory, adjacent
/// lanes, which have the same outputs, load one each, so that the warp reads
/// whole sectors.
SmallVector<Value> PanelSums::ofOutputs(int64_t table, HalfIndex half) {
  if (shape.groups > 1 && ring->hasTables())
    return ring->ofOutputs(table, half);
  Value tensor = table == 0 ? product.scales : product.zeros;
  Type type = getElementTypeOrSelf(tensor.getType());
  Value memory = c.globalPointer(frame.argumentBuffer(tensor));
  Value isOdd = c.less(c.constant(0), c.rem(c.threadId(), 2));
  Value output = c.add(unit->output(), c.orZero(isOdd, c.constant(8)));
  SmallVector<Value> values;
  for (int64_t i = 0; i < shape.panelsOfWarp; ++i) {
    Value panel = panelAt(c.add(shape.firstPanel(c), i));
    Value row =
        c.add(c.mul(c.wide(panel), shape.groups), c.wide(groupOf(half)));
    Value element =
        c.add(c.mul(row, FragmentShape::panelOutputs), c.wide(output));
    Value own = c.widen(
        c.load(type, c.at(memory, c.mul(element, dist::byteSize(type)))));
    Value other = c.builder
                      .create<mlir::gpu::ShuffleOp>(c.loc, own, 1, warpSize,
                                                    mlir::gpu::ShuffleMode::XOR)
                      .getShuffleResult();
    values.push_back(c.create<arith::SelectOp>(isOdd, other, own));
    values.push_back(c.create<arith::SelectOp>(isOdd, own, other));
  }
  return values;
}

/// Adds scaled sums, the first half of `carried`, to the totals, its second
/// half, and sets the sums to zero. `half` is the last half of the sums.
void PanelSums::addScaled(HalfIndex half, MutableArrayRef<Value> carried) {
  int64_t numSums = unit->numSums();
  Value group = groupOf(half);
  SmallVector<Value> scales;
  if (shape.groups > 1)
    scales = ofOutputs(0, half);
  Value inputBlock;
  if (shape.inputBlock > 0) {
    Value inGroup =
        c.sub(shape.number(c, half), c.mul(group, shape.halvesOfGroup));
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

/// Returns the condition that the group or block of rounded inputs ends with
/// `lastHalf`. Null: it always does.
Value PanelSums::endsScale(HalfIndex lastHalf) {
  int64_t chunk = shape.halvesOfChunk(), ofScale = shape.halvesOfScale;
  bool hasShorter = shape.halvesOfGroup % ofScale != 0;
  if (ofScale == chunk && !(hasShorter && chunk > 1))
    return {};
  if (ofScale % shape.stepHalves() == 0 && !hasShorter) {
    int64_t steps = ofScale / shape.stepHalves();
    return c.less(c.constant(steps - 2), c.rem(lastHalf.step, steps));
  }
  Value half = shape.number(c, lastHalf);
  Value end =
      c.add(shape.groups > 1 ? c.rem(half, shape.halvesOfGroup) : half, 1);
  Value ends = c.less(c.rem(end, ofScale), 1);
  if (hasShorter)
    ends = c.create<arith::OrIOp>(
        ends, c.less(c.constant(shape.halvesOfGroup - 1), end));
  return ends;
}

/// Scales sums if the group or block of rounded inputs ends with `lastHalf`.
SmallVector<Value> PanelSums::scaleSums(HalfIndex lastHalf,
                                        SmallVector<Value> carried) {
  OpBuilder &b = c.builder;
  Value ends = endsScale(lastHalf);
  if (!ends) {
    addScaled(lastHalf, carried);
    return carried;
  }
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

/// Multiplies words of a chunk, as PackedUnit::multiply gets them.
SmallVector<Value> PanelSums::emitHalves(ArrayRef<Value> words, HalfIndex half,
                                         SmallVector<Value> carried) {
  if (product.zeros && shape.groups > 1)
    unit->setZeros(ofOutputs(1, half));
  unit->multiply(words, firstRow, half,
                 MutableArrayRef(carried).take_front(unit->numSums()));
  if (shape.halvesOfScale == 0)
    return carried;
  return scaleSums(half.plus(shape.halvesOfChunk() - 1), std::move(carried));
}

/// Multiplies the blocks of a step, whose words the ring has.
SmallVector<Value> PanelSums::emitStep(Value step, SmallVector<Value> carried) {
  SmallVector<Value> words = ring->words();
  int64_t chunk = shape.halvesOfChunk(), ofPanel = 2 * shape.stepHalves();
  for (int64_t half = 0; half < shape.stepHalves(); half += chunk) {
    SmallVector<Value> some;
    for (int64_t panel = 0; panel < shape.panelsOfWarp; ++panel)
      llvm::append_range(
          some, ArrayRef(words).slice(panel * ofPanel + 2 * half, 2 * chunk));
    carried = emitHalves(some, {step, half}, std::move(carried));
  }
  return carried;
}

/// The step with which a part of k begins.
Value PanelSums::partBegin(Value part) {
  Value step = c.mul(c.div(c.mul(part, shape.units()), shape.parts),
                     shape.stepsOfUnit());
  if (shape.units() * shape.stepsOfUnit() == shape.steps())
    return step;
  return c.create<arith::MinSIOp>(step, c.constant(shape.steps()));
}

/// With many rows: if a part of k ends with `step`, adds its sums to those of
/// the parts before it. `carried` has sums, those of the parts before it, the
/// number of the part, and the step with which the next part begins.
SmallVector<Value> PanelSums::finishPart(Value step,
                                         SmallVector<Value> carried) {
  OpBuilder &b = c.builder;
  size_t numSums = unit->numSums(), number = carried.size() - 2;
  auto sums = MutableArrayRef(carried).slice(number - 2 * numSums, numSums);
  auto all = MutableArrayRef(carried).slice(number - numSums, numSums);
  MutableArrayRef<Value> changed =
      MutableArrayRef(carried).drop_front(number - 2 * numSums);
  Value ends = c.less(carried[number + 1], c.add(step, 2));
  auto choice = b.create<scf::IfOp>(c.loc, ValueRange(changed).getTypes(), ends,
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(c.loc, changed);
  b.setInsertionPointToStart(choice.thenBlock());
  for (auto [sum, total] : llvm::zip(sums, all)) {
    total = c.create<arith::AddFOp>(total, sum);
    sum = c.zero(b.getF32Type());
  }
  carried[number] = c.add(carried[number], 1);
  carried[number + 1] = partBegin(c.add(carried[number], 1));
  b.create<scf::YieldOp>(c.loc, changed);
  llvm::copy(choice.getResults(), changed.begin());
  return carried;
}

/// Emits the loop over this warp's parts of k. Returns the sums, scaled if the
/// shape has several scales.
SmallVector<Value>
PanelSums::emitSteps(const Memory &memory,
                     llvm::function_ref<void()> computeRows) {
  OpBuilder &b = c.builder;
  Value warp = c.div(c.threadId(), warpSize);
  Value first = c.constant(0), end = c.constant(shape.steps());
  if (shape.warpsDivideK()) {
    first = partBegin(warp);
    end = partBegin(c.add(warp, 1));
  }
  if (product.zeros && shape.groups == 1)
    unit->setZeros(ofOutputs(1, {first}));
  ring->start(memory.rings, first, end, memory.rows, computeRows);
  // The loop carries the state of the ring, sums, and with many rows what
  // finishPart says.
  int64_t numSums = unit->numSums();
  SmallVector<Value> inits = ring->firstState();
  size_t ofRing = inits.size();
  inits.append(shape.halvesOfScale > 0 ? 2 * numSums : numSums,
               c.zero(b.getF32Type()));
  if (!shape.warpsDivideK()) {
    inits.append(numSums, c.zero(b.getF32Type()));
    inits.append({c.constant(0), partBegin(c.constant(1))});
  }
  auto loop = b.create<scf::ForOp>(c.loc, first, end, c.constant(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value step = loop.getInductionVar();
  ValueRange carried = loop.getRegionIterArgs();
  SmallVector<Value> next = ring->advance(step, carried.take_front(ofRing));
  SmallVector<Value> sums =
      emitStep(step, SmallVector<Value>(carried.drop_front(ofRing)));
  if (!shape.warpsDivideK())
    sums = finishPart(step, std::move(sums));
  next.append(sums);
  b.create<scf::YieldOp>(c.loc, next);
  ValueRange results = loop.getResults();
  if (!shape.warpsDivideK())
    results = results.drop_back(2);
  return SmallVector<Value>(results.take_back(numSums));
}

/// Writes this warp's sums to `memory`: those of a part of k, or of panels.
void PanelSums::putSums(Value memory, MutableArrayRef<Value> sums) {
  Value first = shape.warpsDivideK() ? c.div(c.threadId(), warpSize)
                                     : shape.firstPanel(c);
  Value ofWarp = c.at(memory, c.mul(first, panelStride() * 4));
  Value isOwn = unit->join(sums);
  auto put = [&] {
    unit->forSums(sums, [&](Value row, int64_t output, Value &sum) {
      Value place = c.add(c.mul(row, sumStride), unit->output());
      int64_t moved = output / 2 * panelStride() + output % 2 * 8;
      c.store(sum, c.at(ofWarp, c.mul(c.add(place, moved), 4)));
    });
  };
  if (!isOwn)
    return put();
  InsideIf inside(c, isOwn);
  put();
}

void PanelSums::emit(const Memory &memory,
                     llvm::function_ref<void()> computeRows) {
  SmallVector<Value> sums = emitSteps(memory, computeRows);
  // Other warps may still read the ring, whose memory the sums may take.
  if (!shape.warpsDivideK())
    c.barrier();
  putSums(memory.sums, sums);
}

SmallVector<Value> PanelSums::join(Value memory, Value row, Value output,
                                   int64_t width) {
  Type f32 = c.builder.getF32Type();
  Value inPanel = output, panelOfBlock = c.constant(0);
  if (!shape.warpsDivideK()) {
    inPanel = c.rem(output, FragmentShape::panelOutputs);
    panelOfBlock = c.div(output, FragmentShape::panelOutputs);
  }
  Value element = c.add(c.mul(panelOfBlock, panelStride()),
                        c.add(c.mul(row, sumStride), inPanel));
  Value first = c.at(memory, c.mul(element, 4));
  SmallVector<Value> sums;
  for (int64_t part = 0; part < (shape.warpsDivideK() ? shape.parts : 1);
       ++part)
    for (int64_t i = 0; i < width; i += 4) {
      Value pointer = c.at(first, (part * panelStride() + i) * 4);
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
  Value column = c.add(
      c.mul(panels, FragmentShape::panelOutputs * shape.panelsOfBlock), output);
  Value pointer = c.at(scales, c.mul(c.wide(column), dist::byteSize(type)));
  auto values = c.elements(c.loadVector(type, width, pointer));
  for (auto [sum, scale] : llvm::zip(sums, values))
    sum = c.create<arith::MulFOp>(sum, c.widen(scale));
  return sums;
}

} // namespace heddle::gpu
