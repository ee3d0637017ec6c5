//===- PackedRing.cpp - Blocks of a packed weight ahead of their use ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If warps divide k, each has a ring of its own, and waits for no other warp.
// If warps have panels of their own, they share one ring.
//
//===----------------------------------------------------------------------===//

#include "KernelOrder.h"
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

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t PackedRing::rowBytes() const {
  return unit.reader().areCopied() ? unit.reader().slotBytes() : 0;
}

int64_t PackedRing::slotBytes() const {
  return shape.panelsOfBlock * wordBytes() + rowBytes();
}

int64_t PackedRing::ringBytes() const {
  return stages() * slotBytes() +
         (hasTables() ? tableOffset(static_cast<int64_t>(tables.size()))
                      : int64_t(0));
}

/// Returns the number of slots: with two blocks on a multiprocessor, at least
/// 32 KiB of the weight are under way if few rows are multiplied.
int64_t PackedRing::stages() const {
  constexpr int64_t most = 8, least = 2;
  int64_t rings = shape.warpsDivideK() ? shape.warps() : 1;
  return std::clamp(shape.ringMemory / (rings * slotBytes()), least, most);
}

int64_t PackedRing::groupBytes(int64_t table) const {
  return FragmentShape::panelOutputs * dist::byteSize(tables[table].element);
}

/// The quantization groups of the longest part of k.
int64_t PackedRing::groupsOfPart() const {
  int64_t units = llvm::divideCeil(shape.units(), shape.parts);
  return llvm::divideCeil(units * shape.blocksOfUnit * 2, shape.halvesOfGroup);
}

int64_t PackedRing::tableBytes(int64_t table) const {
  return groupsOfPart() * groupBytes(table);
}

/// The offset of a table after the slots; of the end of all, for the number of
/// tables.
int64_t PackedRing::tableOffset(int64_t table) const {
  int64_t offset = 0;
  for (int64_t i = 0; i < table; ++i)
    offset += tableBytes(i);
  return offset;
}

/// Tables that would take much of the shared memory are read from global
/// memory.
bool PackedRing::hasTables() const {
  constexpr int64_t most = 4096;
  return shape.warpsDivideK() &&
         tableOffset(static_cast<int64_t>(tables.size())) <= most;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void copyUnit(ThreadCode &c, Value target, int64_t inTarget, Value source,
              int64_t inSource, Value present, bool isCached) {
  SmallVector<Value> operands = {target, source};
  std::string text = "cp.async." + std::string(isCached ? "ca" : "cg") +
                     ".shared.global [$0 + " + std::to_string(inTarget) +
                     "], [$1 + " + std::to_string(inSource) + "], " +
                     std::to_string(accessBytes);
  std::string constraints = "l,l";
  if (present) {
    operands.push_back(present);
    text += ", $2";
    constraints += ",r";
  }
  emitPtx(c.builder, c.loc, TypeRange(), operands, text + ";",
          constraints + ",~{memory}", /*hasSideEffects=*/true);
}

/// Lets all threads that use the ring see what was copied to it.
void PackedRing::synchronize() {
  if (shape.warpsDivideK())
    c.builder.create<NVVM::SyncWarpOp>(c.loc, c.constant(-1));
  else
    c.barrier();
}

/// Starts the copies of all scales and zero points of the part.
void PackedRing::startTables() {
  Value group = c.div(c.mul(first, shape.stepHalves()), shape.halvesOfGroup);
  Value row = c.add(c.mul(c.wide(panel), shape.groups), c.wide(group));
  Value inCopy = c.mul(lane, accessBytes);
  int64_t perCopy = warpSize * accessBytes;
  for (auto [i, table] : llvm::enumerate(tables)) {
    auto number = static_cast<int64_t>(i);
    int64_t bytes = tableBytes(number);
    Value source = c.at(table.memory, c.mul(row, groupBytes(number)));
    Value target = c.at(ring, stages() * slotBytes() + tableOffset(number));
    Value left =
        c.mul(c.sub(c.constant(shape.groups), group), groupBytes(number));
    for (int64_t at = 0; at < bytes; at += perCopy) {
      Value place = c.add(inCopy, at);
      auto start = [&] {
        Value present = c.orZero(
            c.create<arith::CmpIOp>(arith::CmpIPredicate::slt, place, left),
            c.constant(accessBytes));
        c.copyAsync(c.at(target, place), c.at(source, place), accessBytes,
                    present);
      };
      if (bytes - at >= perCopy) {
        start();
        continue;
      }
      InsideIf inside(c, c.less(place, bytes));
      start();
    }
    tablesOfLane.push_back(c.at(
        target, c.wide(c.mul(unit.output(), dist::byteSize(table.element)))));
  }
}

/// Starts the copies of a step's words from `from` to the slot at `offset`.
void PackedRing::startWords(Value offset, Value from) {
  Value target = c.at(copiedWords, offset);
  for (int64_t block = 0; block < shape.stepBlocks; ++block) {
    int64_t moved = block * FragmentShape::blockBytes;
    copyUnit(c, target, moved, from, moved, /*present=*/{},
             /*isCached=*/false);
  }
}

/// If the ring has rows, starts the copies of those of `step` to the slot at
/// `offset`.
void PackedRing::startRows(Value offset, ValueRange from, Value step) {
  if (rowBytes() > 0)
    unit.reader().startCopies(offset, from[1], step);
}

/// Returns where the copies of the step begin that follows one whose copies
/// begin at `pointer`.
Value PackedRing::sourceAfter(int64_t source, Value pointer) {
  return c.at(pointer, source == 0 ? wordBytes() : unit.reader().rowBytes());
}

void PackedRing::start(Value memory, Value firstStep, Value endOfSteps,
                       Value resident, llvm::function_ref<void()> computeRows) {
  first = firstStep;
  end = endOfSteps;
  Value thread = c.threadId(), warp = c.div(thread, warpSize);
  int64_t ringOfWarp = shape.warpsDivideK() ? ringBytes() : 0;
  ring = c.at(memory, c.wide(c.mul(warp, ringOfWarp)));
  Value inWords = c.mul(lane, accessBytes);
  auto wordsOf = [&](Value panelOfBlock) {
    return c.at(ring, c.wide(c.add(c.mul(panelOfBlock, wordBytes()), inWords)));
  };
  copiedWords = wordsOf(shape.warpsDivideK() ? c.constant(0) : warp);
  for (int64_t i = 0; i < shape.panelsOfWarp; ++i)
    wordsOfPanels.push_back(wordsOf(c.add(shape.firstPanel(c), i)));
  Value block = c.add(c.mul(c.wide(panel), shape.weight.blocks()),
                      c.wide(c.mul(first, shape.stepBlocks)));
  sources = {c.at(
      weight, c.add(c.mul(block, FragmentShape::blockBytes), c.wide(inWords)))};
  if (rowBytes() > 0) {
    Value rows = c.at(ring, shape.panelsOfBlock * wordBytes());
    sources.push_back(unit.reader().prepareCopies(
        rows, shape.warpsDivideK() ? lane : thread,
        shape.panelsOfBlock * warpSize, firstRow, first));
    unit.prepareLoads(rows);
  }
  if (shape.keepsRows)
    unit.prepareLoads(resident);
  // Another product may have used the ring before.
  synchronize();
  if (hasTables())
    startTables();
  if (!shape.keepsRows)
    return startFirstSteps();
  startFirstWords();
  if (!computeRows)
    return;
  if (shape.beginsEarly)
    waitForKernelsBefore(c.builder, c.loc);
  computeRows();
}

/// Starts the copies of the words of the first steps.
void PackedRing::startFirstWords() {
  for (int64_t stage = 0; stage < stages() - 1; ++stage) {
    {
      InsideIf inside(c, c.less(c.add(first, stage), end));
      startWords(c.wide(c.constant(stage * slotBytes())), sources[0]);
    }
    c.commitCopies();
    sources[0] = sourceAfter(0, sources[0]);
  }
}

/// Starts the copies of as many steps as there are slots but one. If the kernel
/// begins early, it copies all words, then waits for the kernels before it, and
/// then copies the rows, which these have computed.
void PackedRing::startFirstSteps() {
  auto slotOf = [&](int64_t stage) {
    return c.wide(c.constant(stage * slotBytes()));
  };
  auto isThere = [&](int64_t stage) {
    return c.less(c.add(first, stage), end);
  };
  if (shape.beginsEarly) {
    Value words = sources[0];
    for (int64_t stage = 0; stage < stages() - 1; ++stage) {
      {
        InsideIf inside(c, isThere(stage));
        startWords(slotOf(stage), words);
      }
      words = sourceAfter(0, words);
    }
    waitForKernelsBefore(c.builder, c.loc);
  }
  for (int64_t stage = 0; stage < stages() - 1; ++stage) {
    {
      InsideIf inside(c, isThere(stage));
      if (!shape.beginsEarly)
        startWords(slotOf(stage), sources[0]);
      startRows(slotOf(stage), sources, c.add(first, stage));
    }
    c.commitCopies();
    for (auto [i, source] : llvm::enumerate(sources))
      source = sourceAfter(static_cast<int64_t>(i), source);
  }
}

SmallVector<Value> PackedRing::firstState() {
  SmallVector<Value> state = {c.wide(c.constant(0)),
                              c.wide(c.constant((stages() - 1) * slotBytes()))};
  llvm::append_range(state, sources);
  return state;
}

SmallVector<Value> PackedRing::advance(Value step, ValueRange state) {
  Value reading = state[0], writing = state[1];
  ValueRange from = state.drop_front(2);
  c.waitForCopies(stages() - 2);
  // After this, threads see the copies of all of them, and none still reads the
  // slot of the previous step, which is written next.
  synchronize();
  Value ahead = c.add(step, stages() - 1);
  {
    InsideIf inside(c, c.less(ahead, end));
    startWords(writing, from[0]);
    startRows(writing, from, ahead);
  }
  c.commitCopies();
  slot = reading;
  if (rowBytes() > 0)
    unit.reader().setSlot(slot);
  else if (shape.keepsRows)
    unit.reader().setSlot(c.wide(c.mul(step, unit.reader().slotBytes())));
  Value after = c.add(reading, c.wide(c.constant(slotBytes())));
  Value isSlot =
      c.create<arith::CmpIOp>(arith::CmpIPredicate::ult, after,
                              c.wide(c.constant(stages() * slotBytes())));
  SmallVector<Value> next = {c.orZero(isSlot, after), reading};
  for (auto [i, source] : llvm::enumerate(from))
    next.push_back(sourceAfter(static_cast<int64_t>(i), source));
  return next;
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

SmallVector<Value> PackedRing::words() {
  SmallVector<Value> words;
  for (Value ofPanel : wordsOfPanels) {
    Value base = c.at(ofPanel, slot);
    for (int64_t block = 0; block < shape.stepBlocks; ++block)
      llvm::append_range(words,
                         c.elements(c.loadVector(
                             c.builder.getI32Type(), 4,
                             c.at(base, block * FragmentShape::blockBytes))));
  }
  return words;
}

SmallVector<Value> PackedRing::ofOutputs(int64_t table, HalfIndex half) {
  Type element = tables[table].element;
  int64_t perStep = shape.stepHalves(), perGroup = shape.halvesOfGroup;
  Value step = c.sub(half.step, first), group;
  int64_t moved = 0;
  if (perGroup % perStep == 0) {
    group = c.div(step, perGroup / perStep);
  } else if (perStep % perGroup == 0) {
    group = c.mul(step, perStep / perGroup);
    moved = half.inStep / perGroup;
  } else {
    group = c.div(c.add(c.mul(step, perStep), half.inStep), perGroup);
  }
  Value pointer =
      c.at(c.at(tablesOfLane[table], c.wide(c.mul(group, groupBytes(table)))),
           moved * groupBytes(table));
  return {c.widen(c.load(element, pointer)),
          c.widen(c.load(element, c.at(pointer, 8 * dist::byteSize(element))))};
}

} // namespace heddle::gpu
