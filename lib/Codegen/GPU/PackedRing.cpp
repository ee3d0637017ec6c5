//===- PackedRing.cpp - Blocks of a packed weight ahead of their use ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each warp has a ring of its own, so that warps wait for no other warp. A lane
// copies the words that it multiplies itself.
//
//===----------------------------------------------------------------------===//

#include "PackedTiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace heddle::gpu {

PackedRing::PackedRing(ThreadCode &c, const FragmentShape &shape,
                       PackedUnit &unit, Value weight, Value panel,
                       Value firstRow, ArrayRef<Table> tables)
    : c(c), shape(shape), unit(unit), weight(weight), panel(panel),
      firstRow(firstRow), lane(c.rem(c.threadId(), warpSize)),
      tables(tables.begin(), tables.end()) {}

/// Groups that begin and end in the middle of blocks, though they have several
/// halves, are rare: their tables are read from global memory.
bool PackedRing::hasTables() const {
  return shape.halvesOfGroup == 1 || shape.halvesOfGroup % 2 == 0;
}

int64_t PackedRing::rowBytes() const {
  return unit.reader().isAligned() ? shape.tileRows * unit.reader().rowBytes()
                                   : 0;
}

int64_t PackedRing::tableBytes(int64_t table) const {
  return groupsOfBlock() * FragmentShape::panelOutputs *
         dist::byteSize(tables[table].element);
}

/// The offset of a table in a slot; of the slot's end, for the number of
/// tables.
int64_t PackedRing::tableOffset(int64_t table) const {
  int64_t offset = FragmentShape::blockBytes + rowBytes();
  for (int64_t i = 0; i < table; ++i)
    offset += tableBytes(i);
  return offset;
}

int64_t PackedRing::slotBytes() const {
  return tableOffset(hasTables() ? static_cast<int64_t>(tables.size())
                                 : int64_t(0));
}

/// Returns the number of slots: with two blocks on a multiprocessor, at least
/// 32 KiB of the weight are under way if few rows are multiplied.
int64_t PackedRing::stages() const {
  constexpr int64_t most = 8, least = 2, sharedBytes = 64 * 1024;
  return std::clamp(sharedBytes / (shape.parts * slotBytes()), least, most);
}

/// Starts the copy of the scales or zero points that the product needs at
/// `block`: if a group has several blocks, at one of these only.
void PackedRing::startTable(int64_t number, Value target, Value block) {
  const Table &table = tables[number];
  Value isHere;
  int64_t blocksOfGroup = shape.halvesOfGroup / 2;
  if (blocksOfGroup > 1) {
    Value inGroup = c.rem(block, blocksOfGroup);
    isHere = table.isLast ? c.less(c.constant(blocksOfGroup - 2), inGroup)
                          : c.less(inGroup, 1);
  }
  isHere = c.both(isHere, c.less(lane, tableBytes(number) / accessBytes));
  InsideIf inside(c, isHere);
  int64_t groupBytes =
      FragmentShape::panelOutputs * dist::byteSize(table.element);
  Value group = c.div(c.mul(block, 2), shape.halvesOfGroup);
  Value inTable = c.mul(lane, accessBytes);
  Value present = c.constant(accessBytes);
  if (shape.groups % groupsOfBlock() != 0) {
    // The last block has one group only.
    Value left = c.mul(c.sub(c.constant(shape.groups), group), groupBytes);
    present = c.orZero(c.less(inTable, left), present);
  }
  Value row = c.add(c.mul(c.wide(panel), shape.groups), c.wide(group));
  c.copyAsync(c.at(c.at(target, tableOffset(number)), inTable),
              c.at(c.at(table.memory, c.mul(row, groupBytes)), inTable),
              accessBytes, present);
}

/// Starts all copies of `block` to the slot at `target`.
void PackedRing::startBlock(Value target, Value block) {
  Value number =
      c.add(c.mul(c.wide(panel), shape.weight.blocks()), c.wide(block));
  Value inBlock = c.mul(lane, accessBytes);
  Value source = c.at(weight, c.mul(number, FragmentShape::blockBytes));
  c.copyAsync(c.at(target, inBlock), c.at(source, inBlock), accessBytes,
              c.constant(accessBytes));
  if (rowBytes() > 0)
    unit.reader().startCopies(c.at(target, FragmentShape::blockBytes), block,
                              firstRow, shape.tileRows, unit.checksRows());
  if (hasTables())
    for (size_t i = 0; i < tables.size(); ++i)
      startTable(static_cast<int64_t>(i), target, block);
}

void PackedRing::start(Value memory, Value first, Value endOfBlocks) {
  end = endOfBlocks;
  Value warp = c.div(c.threadId(), warpSize);
  ring = c.at(memory, c.mul(warp, warpBytes()));
  // Another product may have used the ring before.
  c.builder.create<NVVM::SyncWarpOp>(c.loc, c.constant(-1));
  for (int64_t stage = 0; stage < stages() - 1; ++stage) {
    Value block = c.add(first, stage);
    {
      InsideIf inside(c, c.less(block, end));
      startBlock(c.at(ring, stage * slotBytes()), block);
    }
    c.commitCopies();
  }
}

SmallVector<Value> PackedRing::firstOffsets() {
  return {c.constant(0), c.constant((stages() - 1) * slotBytes())};
}

SmallVector<Value> PackedRing::advance(Value block, ValueRange offsets) {
  Value reading = offsets[0], writing = offsets[1];
  c.waitForCopies(stages() - 2);
  // After this, the warp's lanes see the copies of all of them, and no lane
  // still reads the slot of the previous block, which is written next.
  c.builder.create<NVVM::SyncWarpOp>(c.loc, c.constant(-1));
  Value ahead = c.add(block, stages() - 1);
  {
    InsideIf inside(c, c.less(ahead, end));
    startBlock(c.at(ring, writing), ahead);
  }
  c.commitCopies();
  slot = c.at(ring, reading);
  if (rowBytes() > 0)
    unit.reader().setSlot(c.at(slot, FragmentShape::blockBytes));
  Value after = c.add(reading, slotBytes());
  return {c.orZero(c.less(after, warpBytes()), after), reading};
}

SmallVector<Value> PackedRing::words() {
  Value pointer = c.at(slot, c.mul(lane, accessBytes));
  return c.elements(c.loadVector(c.builder.getI32Type(), 4, pointer));
}

SmallVector<Value> PackedRing::ofOutputs(int64_t table, Value half) {
  Type element = tables[table].element;
  int64_t bytes = dist::byteSize(element);
  Value output = unit.output();
  if (groupsOfBlock() > 1)
    output = c.add(output, c.mul(c.rem(half, 2), FragmentShape::panelOutputs));
  Value pointer = c.at(c.at(slot, tableOffset(table)), c.mul(output, bytes));
  return {c.widen(c.load(element, pointer)),
          c.widen(c.load(element, c.at(pointer, 8 * bytes)))};
}

} // namespace heddle::gpu
