//===- PackedGemmAmx.cpp - Products with packed weights on AMX ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedGemmAmx.h"
#include "PackedPanels.h"
#include "PairUnit.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

namespace {

constexpr int64_t quadBytes = 4, panelRowBytes = panelWidth * quadBytes;
/// The number of tile registers for sums. Registers for A follow, then those
/// for B.
constexpr int64_t mostSums = 4;
/// The smallest number of rows of an AMX tile of B. With fewer rows, loading
/// tiles makes AMX slower than vector instructions.
constexpr int64_t leastQuads = 8;
/// The largest number of rows of integer activations that vector instructions
/// multiply. For more rows, vector instructions need more time than memory
/// needs to deliver the weight. The choice does not change results, because
/// sums of integers are exact.
constexpr int64_t mostRowsOnVectors = 4;
/// For pairs of bf16 or fp16: the length of a slice of K in packed words. The
/// first-level cache holds these words of a panel while all rows are
/// multiplied.
constexpr int64_t wordsOfSlice = 128;
/// The bytes of A's rows that should stay in the second-level cache. CPUs with
/// AMX have 2 MiB of it; the rest is for B and the sums.
constexpr int64_t residentBytes = 1 << 20;
/// How far ahead of its use the weight is prefetched, in bytes. The panels that
/// are read at the same time share this distance equally.
constexpr int64_t fetchAhead = 8192, lineBytes = 64;

int64_t largestDivisor(int64_t number, int64_t most) {
  for (int64_t divisor = std::min(number, most); divisor > 1; --divisor)
    if (number % divisor == 0)
      return divisor;
  return 1;
}

/// The largest number of packed words that divides the length of every block of
/// integer activations (elements of a row with a common scale). The depth of a
/// tile of B, in words, divides this number, so that no tile spans two blocks.
/// Products of pairs have no blocks; for them, returns the number of
/// packed words along K.
int64_t commonWords(const PackedGemmSpec &spec) {
  int64_t perWord = plan::PackedWeight::wordBits / spec.bits;
  if (spec.groups == 0)
    return llvm::divideCeil(spec.k, perWord);
  IntegerActivations::Layout layout(spec);
  int64_t last = llvm::divideCeil(layout.lastLength(), perWord);
  return layout.blocksOfGroup() > 1
             ? std::gcd(layout.blockLength / perWord, last)
             : last;
}

/// How many 32-bit elements of an AMX tile of B are made from one packed word:
/// two from a word of int4 codes, which are unpacked to bytes; otherwise one.
int64_t quadsOf(const PackedGemmSpec &spec) { return spec.bits < 8 ? 2 : 1; }

/// The bytes of a row of A: pairs, or integers that are split into two
/// 8-bit digits.
int64_t rowBytesOf(const PackedGemmSpec &spec) { return spec.k * 2; }

/// Products of pairs take K in slices whose weights the first-level cache
/// holds. Returns the number of AMX tiles along K in such a slice. `quads` is
/// the number of rows of a tile of B.
int64_t stepsOfSlice(int64_t quads) {
  return std::max<int64_t>(wordsOfSlice / quads, 1);
}

/// K is cut into units. The code computes the products of one unit after the
/// other for all rows and adds them to the totals. Returns the number of units.
/// With a weight that is not quantized, a unit is a slice whose weights fit in
/// the first-level cache. With a quantized weight, a unit is a group (weights
/// with a common scale). If one group covers all of K, a unit is a block
/// (activations with a common scale) instead.
int64_t unitsOf(const PackedGemmSpec &spec, int64_t quads) {
  if (spec.groups == 0)
    return llvm::divideCeil(commonWords(spec) / quads, stepsOfSlice(quads));
  return spec.groups > 1 ? spec.groups
                         : IntegerActivations::Layout(spec).blocksOfGroup();
}

} // namespace

PackedGemmAmx::Layout::Layout(const PackedGemmSpec &spec, int64_t blockRows)
    : quads(quadsOf(spec) *
            largestDivisor(commonWords(spec), AmxTiles::rows / quadsOf(spec))),
      tileRows(std::min(spec.m, AmxTiles::rows)),
      rows(llvm::alignTo(blockRows, tileRows)),
      columns(vectors * std::max<int64_t>(spec.products, 2)),
      units(unitsOf(spec, quads)) {
  bool hasIntegers = spec.groups > 0;
  steps = llvm::divideCeil(spec.k, plan::PackedWeight::wordBits / spec.bits) *
          quadsOf(spec) / quads;
  digits = hasIntegers && spec.inputBlock == 0 ? 2 : 1;
  left = digits > 1 || spec.m > AmxTiles::rows ? 2 : 1;
  tilesOfRows = left / digits;
  IntegerActivations::Layout activations(spec);
  blocks = hasIntegers ? activations.groups * activations.blocksOfGroup() : 0;
  int64_t kept = llvm::alignTo(rows, tileRows * tilesOfRows) * digits;
  scalesAt = rowsAt + kept * steps * AmxTiles::rowBytes;
  beginsAt = llvm::alignTo(scalesAt + blocks * rows * quadBytes, 64);
  totalsAt = llvm::alignTo(beginsAt + blocks * rows * quadBytes, 64);
  int64_t cuts = llvm::divideCeil(scalesAt - rowsAt, residentBytes);
  unitsOfCut = llvm::divideCeil(units, cuts);
  int64_t sumBytes = columns * columnBytes();
  sumsAt = totalsAt + (isCut() ? std::max(sumBytes, residentBytes) : sumBytes);
  wholeAt = sumsAt + (hasIntegers ? sumBytes : 0);
  unpackedAt = wholeAt + (hasIntegers ? mostSums * AmxTiles::tileBytes : 0);
  unpackedBytes = 0;
  if (spec.bits < 8) {
    int64_t longest =
        std::max(activations.blockLength, activations.lastLength());
    int64_t wordsOfBlock =
        llvm::divideCeil(longest, plan::PackedWeight::wordBits / spec.bits);
    unpackedBytes = wordsOfBlock * quadsOf(spec) * AmxTiles::rowBytes;
  }
  configAt = unpackedAt + columns * unpackedBytes;
  bytes = configAt + AmxTiles::configBytes;
}

int64_t PackedGemmAmx::rowsOfBlock(const PackedGemmSpec &spec) {
  if (spec.groups > 0)
    return 128; // The first-level cache holds the sums of these rows.
  return rowBytesOf(spec) * 512 <= residentBytes ? 512 : 256;
}

bool PackedGemmAmx::isUsedFor(const PackedGemmSpec &spec,
                              const CpuTarget &target) {
  if (!target.hasAmx)
    return false;
  if (WeightUnpacker::usesIntegers(spec, target))
    return spec.m > mostRowsOnVectors && Layout(spec, 1).quads >= leastQuads;
  return multipliesTiles(target, spec.aType, spec.aType) && spec.bits == 16 &&
         Layout(spec, 1).quads >= leastQuads;
}

PackedGemmAmx::PackedGemmAmx(LoopBuilder &builder, const PackedGemmSpec &spec,
                             const CpuTarget &target, WeightUnpacker &unpacker,
                             IntegerActivations &activations, PackedSums &sums,
                             const PackedScratch &scratch, Value memory)
    : b(builder), spec(spec), unpacker(unpacker), activations(activations),
      sums(sums), scratch(scratch),
      layout(spec, std::min(spec.m, scratch.blockRows)),
      tiles(builder, target.emulatesAmx), memory(memory),
      i32s(VectorType::get(target.lanes(), builder.builder.getI32Type())),
      f32s(VectorType::get(target.lanes(), builder.builder.getF32Type())) {}

Value PackedGemmAmx::at(int64_t offset) {
  return b.advance(memory, b.builder.getI8Type(), scratch.tilesAt + offset);
}

Value PackedGemmAmx::sumAt(Value sums, int64_t column, Value local) {
  return b.advance(
      b.advance(sums, b.builder.getI8Type(), column * layout.columnBytes()),
      f32s, local);
}

void PackedGemmAmx::clear(Value sums) {
  auto numColumns = static_cast<int64_t>(columns.size());
  b.forLoop(b.constant(0), b.constant(numColumns * layout.rows), 1,
            [&](Value row) { b.store(b.zeros(f32s), sumAt(sums, 0, row), 4); });
}

int64_t PackedGemmAmx::columnsTogether(int64_t rowTiles) const {
  return mostSums / (rowTiles * digits());
}

void PackedGemmAmx::configure() {
  AmxTiles::Shape sum{layout.tileRows, AmxTiles::rowBytes},
      left{layout.tileRows, layout.quads * quadBytes},
      right{layout.quads, AmxTiles::rowBytes};
  SmallVector<AmxTiles::Shape> shapes(mostSums, sum);
  shapes.append(layout.left, left);
  shapes.append(AmxTiles::count - shapes.size(), right);
  tiles.configure(at(layout.configAt), shapes);
}

Value PackedGemmAmx::rowsAt(Value tile, Value step) {
  Value group = layout.tilesOfRows > 1 ? b.div(tile, layout.tilesOfRows) : tile;
  Value index = b.add(b.mul(group, layout.steps), step);
  return b.advance(at(layout.rowsAt), i32s,
                   b.mul(index, layout.left * layout.tileRows));
}

void PackedGemmAmx::takeRow(Value row, Value local) {
  Type i8 = b.builder.getI8Type();
  Value tile = b.div(local, layout.tileRows);
  Value index = b.rem(local, layout.tileRows * layout.tilesOfRows);
  for (int64_t digit = 0; digit < digits(); ++digit) {
    Value from = b.advance(row, i8, digit * activations.layout.digitsAt);
    b.forLoop(b.constant(0), b.constant(layout.steps), 1, [&](Value step) {
      Value line = load(
          i32s, b.advance(from, i8, b.mul(step, layout.quads * quadBytes)));
      Value to = b.advance(rowsAt(tile, step), i32s, index);
      b.store(line, b.advance(to, i32s, digit * layout.tileRows), 4);
    });
  }
  Type i32 = b.builder.getI32Type();
  b.forLoop(b.constant(0), b.constant(layout.blocks), 1, [&](Value block) {
    b.store(b.load(i32, activations.scaleAt(row, block), 4),
            ofBlock(layout.scalesAt, block, local), 4);
    if (isUnpacked())
      b.store(b.load(i32, activations.beginAt(row, block), 4),
              ofBlock(layout.beginsAt, block, local), 4);
  });
}

Value PackedGemmAmx::ofBlock(int64_t offset, Value block, Value local) {
  return b.advance(at(offset), b.builder.getI32Type(),
                   b.add(b.mul(block, layout.rows), local));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void PackedGemmAmx::emit(const FusedProducts &made, Value first, int64_t count,
                         Value begin, Value end) {
  part = &made;
  firstRow = first;
  rows = count;
  if (layout.isCut())
    return emitCuts(begin, end);
  // With one tile of A there are registers for the sums of four tiles of B. A
  // panel has two tiles, so two panels are computed together.
  bool isNarrow = count <= AmxTiles::rows && digits() == 1;
  int64_t streams = isNarrow && made.weights.size() == 1 ? 2 : 1;
  totals = at(layout.totalsAt);
  forPanels(b, begin, end, streams, [&](ArrayRef<Value> panels) {
    setColumns(panels);
    clear(totals);
    addUnits(b.constant(0), b.constant(layout.units));
    finish();
  });
}

/// If the second-level cache cannot hold all rows of A, K is split into ranges
/// that are short enough (cuts). The emitted code multiplies one cut of the
/// rows by several panels while this cut is in the cache. Scratch memory holds
/// the totals of these panels until the last cut.
void PackedGemmAmx::emitCuts(Value begin, Value end) {
  auto panelBytes = vectors * static_cast<int64_t>(part->weights.size()) *
                    layout.columnBytes();
  int64_t together = std::max<int64_t>(residentBytes / panelBytes, 1);
  Value units = b.constant(layout.units);
  b.forLoop(begin, end, together, [&](Value first) {
    Value last = b.min(b.add(first, together), end);
    b.forLoop(b.constant(0), units, layout.unitsOfCut, [&](Value unit) {
      Value next = b.min(b.add(unit, layout.unitsOfCut), units);
      b.forLoop(first, last, 1, [&](Value panel) {
        totals = b.advance(at(layout.totalsAt), b.builder.getI8Type(),
                           b.mul(b.sub(panel, first), panelBytes));
        setColumns(panel);
        b.ifThen(b.equal(unit, b.constant(0)), [&] { clear(totals); });
        addUnits(unit, next);
        b.ifThen(b.equal(next, units), [&] { finish(); });
      });
    });
  });
}

void PackedGemmAmx::setColumns(ArrayRef<Value> panels) {
  Type i8 = b.builder.getI8Type();
  columns.clear();
  for (Value panel : panels)
    for (const PackedWeight &weight : part->weights)
      for (int64_t v = 0; v < vectors; ++v)
        columns.push_back({panel, &weight, v,
                           b.advance(b.advance(weight.packedWords, i8,
                                               b.mul(panel, unpacker.count() *
                                                                panelRowBytes)),
                                     i8, v * AmxTiles::rowBytes)});
  groupSums = isOneGroup() ? totals : at(layout.sumsAt);
}

/// Adds the products over units `begin` to `end` (exclusive) of K to the
/// totals. A unit is a slice of K for pairs, and a group (weights with a
/// common scale) for quantized weights. If there is a single group, a unit is a
/// block (activations with a common scale).
void PackedGemmAmx::addUnits(Value begin, Value end) {
  if (isOneGroup())
    return addBlocks(b.constant(0), begin, end);
  b.forLoop(begin, end, 1, [&](Value unit) {
    if (unpacker.isInteger)
      addGroup(unit, begin);
    else
      addPairs(unit);
  });
  if (unpacker.isInteger && activations.layout.blocksOfGroup() == 1)
    addIntegers(lastOf(before(end), before(end)));
}

/// For weights of pairs: adds the products over the slice of K with the
/// index `index` to the totals. The tile registers start with the totals, so no
/// separate addition is needed.
void PackedGemmAmx::addPairs(Value index) {
  int64_t perSlice = stepsOfSlice(layout.quads);
  KSlice slice;
  slice.firstStep = b.mul(index, perSlice);
  slice.word = b.mul(slice.firstStep, stepWords());
  slice.steps = b.min(b.constant(perSlice),
                      b.sub(b.constant(layout.steps), slice.firstStep));
  emitRows(slice);
}

/// Emits one iteration of a loop over the weight's groups. The first iteration
/// is for group `begin`, this one for group `group`: it adds the products of
/// the group, block by block. The order is that of PackedGemm::sumGroup, so
/// that tiles and vectors give the same bits. If groups have one block, vector
/// code scales and adds the sums of a group in the loop's next iteration, while
/// tiles multiply the next group.
void PackedGemmAmx::addGroup(Value group, Value begin) {
  int64_t blocks = activations.layout.blocksOfGroup();
  if (blocks == 1)
    return addBlock(group, b.constant(0), begin,
                    activations.layout.lastLength());
  clear(groupSums);
  addBlocks(group, b.constant(0), b.constant(blocks));
  scaleGroup(group);
}

/// Adds the products of blocks `begin` to `end` (exclusive) of a group of the
/// weight. The last block of the group may be shorter, so it is emitted
/// separately.
void PackedGemmAmx::addBlocks(Value group, Value begin, Value end) {
  const IntegerActivations::Layout &blocks = activations.layout;
  Value last = b.constant(blocks.blocksOfGroup() - 1);
  b.forLoop(begin, b.min(end, last), 1, [&](Value block) {
    addBlock(group, block, begin, blocks.blockLength);
  });
  b.ifThen(b.less(last, end),
           [&] { addBlock(group, last, begin, blocks.lastLength()); });
  Value first = b.mul(group, blocks.blocksOfGroup());
  addIntegers(lastOf(group, b.add(first, before(end))));
}

/// Adds the products of block `block` of a group. The caller loops over blocks
/// or, if each group has only one block, over groups; `begin` is where this
/// loop begins. In its first iteration there are no sums of an earlier block to
/// scale and add, so the code compares with `begin`.
void PackedGemmAmx::addBlock(Value group, Value block, Value begin,
                             int64_t length) {
  const IntegerActivations::Layout &blocks = activations.layout;
  bool isGroup = blocks.blocksOfGroup() == 1;
  int64_t perGroup = llvm::divideCeil(unpacker.count(), spec.groups);
  int64_t count = llvm::divideCeil(length, unpacker.perWord);
  KSlice slice;
  slice.word = b.add(b.mul(group, perGroup),
                     b.mul(block, blocks.blockLength / unpacker.perWord));
  slice.firstStep = b.div(slice.word, stepWords());
  slice.steps = b.constant(count / stepWords());
  slice.group = group;
  slice.block = b.add(b.mul(group, blocks.blocksOfGroup()), block);
  slice.isPending = b.less(begin, isGroup ? group : block);
  slice.groupBefore = isGroup ? before(group) : group;
  if (isUnpacked())
    unpack(slice.word, count);
  emitRows(slice);
}

/// Unpacks the int4 codes of a block to bytes in scratch memory.
/// `WeightUnpacker::codeOffset` is added to each code, so that it is unsigned.
void PackedGemmAmx::unpack(Value word, int64_t count) {
  for (auto [index, column] : llvm::enumerate(columns)) {
    Value to = unpackedAt(static_cast<int64_t>(index));
    Value from = b.advance(column.packedWords, b.builder.getI8Type(),
                           b.mul(word, panelRowBytes));
    b.forLoop(b.constant(0), b.constant(count), 1, [&](Value i) {
      Value source =
          b.advance(from, b.builder.getI8Type(), b.mul(i, panelRowBytes));
      b.prefetch(ahead(source));
      Value prepared = unpacker.prepare(load(i32s, source));
      for (int64_t step = 0; step < unpacker.steps(); ++step)
        b.store(unpacker.factor(prepared, step),
                b.advance(to, i32s, b.add(b.mul(i, unpacker.steps()), step)),
                4);
    });
  }
}

/// Loops over row tiles. While AMX multiplies integers for some row tiles,
/// vector code adds the sums that AMX has computed for the previous row tiles.
void PackedGemmAmx::emitRows(const KSlice &slice) {
  int64_t numTiles = llvm::divideCeil(rows, layout.tileRows);
  int64_t together = layout.tilesOfRows;
  int64_t whole = numTiles / together * together;
  auto addBlockBefore = [&](int64_t part, int64_t parts) {
    b.ifThen(slice.isPending, [&] {
      addIntegers(lastOf(slice.groupBefore, before(slice.block)), part, parts);
    });
  };
  auto addTilesBefore = [&](Value tile, int64_t part, int64_t parts) {
    Value tileBefore = b.sub(tile, b.constant(together));
    addIntegers(lastColumns(slice.group, slice.block, tileBefore, together),
                part, parts);
  };
  if (whole == together)
    emitRowTiles(slice, b.constant(0), together, addBlockBefore);
  else if (whole > 0)
    b.forLoop(b.constant(0), b.constant(whole), together, [&](Value tile) {
      emitRowTiles(slice, tile, together, [&](int64_t part, int64_t parts) {
        b.ifThen(
            b.equal(tile, b.constant(0)), [&] { addBlockBefore(part, parts); },
            [&] { addTilesBefore(tile, part, parts); });
      });
    });
  if (whole < numTiles)
    emitRowTiles(slice, b.constant(whole), numTiles - whole,
                 [&](int64_t part, int64_t parts) {
                   if (whole > 0)
                     addTilesBefore(b.constant(whole), part, parts);
                   else
                     addBlockBefore(part, parts);
                 });
}

/// Computes all columns for `rowTiles` row tiles from `tile` on. `meanwhile`
/// emits the vector code that the CPU executes while tiles multiply the first
/// columns.
void PackedGemmAmx::emitRowTiles(const KSlice &slice, Value tile,
                                 int64_t rowTiles, MeanwhileFn meanwhile) {
  int64_t most = columnsTogether(rowTiles);
  auto numColumns = static_cast<int64_t>(columns.size());
  for (int64_t first = 0; first < numColumns; first += most)
    multiply(slice, tile, rowTiles, first, std::min(most, numColumns - first),
             [&](int64_t part, int64_t parts) {
               if (first == 0)
                 return meanwhile(part, parts);
               addIntegers({slice.group, slice.block, tile, rowTiles,
                            first - most, most},
                           part, parts);
             });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value PackedGemmAmx::unpackedAt(int64_t column) {
  return at(layout.unpackedAt + column * layout.unpackedBytes);
}

Value PackedGemmAmx::ahead(Value pointer) {
  auto numPanels = static_cast<int64_t>(columns.size()) / vectors;
  return b.advance(pointer, b.builder.getI8Type(), fetchAhead / numPanels);
}

/// Multiplies `rowTiles` row tiles of A, from `tile` on, by `count` tile
/// columns of B. The sums of row tile `l` are in the registers from l * count
/// on.
void PackedGemmAmx::multiply(const KSlice &slice, Value tile, int64_t rowTiles,
                             int64_t firstColumn, int64_t count,
                             MeanwhileFn meanwhile) {
  int64_t left = rowTiles * digits();
  auto totalOf = [&](int64_t sum) {
    Value row = b.mul(b.add(tile, sum / count), layout.tileRows);
    return sumAt(totals, firstColumn + sum % count, row);
  };
  for (int64_t sum = 0; sum < left * count; ++sum)
    if (unpacker.isInteger)
      tiles.zero(static_cast<int>(sum));
    else
      tiles.load(static_cast<int>(sum), totalOf(sum), AmxTiles::rowBytes);
  // With integer activations, the last step along K is emitted after the loop
  // over steps, mixed with the vector code of `meanwhile`, which scales and
  // adds earlier sums. With pairs there is no such code, so the loop
  // has all steps.
  Value last = unpacker.isInteger ? before(slice.steps) : slice.steps;
  b.forLoop(b.constant(0), last, 1, [&](Value step) {
    multiplyStep(slice, tile, step, left, firstColumn, count, nullptr);
    if (prefetchesSlices() && firstColumn == 0)
      prefetchSlice(slice, tile, step);
  });
  if (unpacker.isInteger)
    multiplyStep(slice, tile, last, left, firstColumn, count, meanwhile);
  for (int64_t sum = 0; sum < left * count; ++sum)
    tiles.store(static_cast<int>(sum),
                unpacker.isInteger
                    ? at(layout.wholeAt + sum * AmxTiles::tileBytes)
                    : totalOf(sum),
                AmxTiles::rowBytes);
}

void PackedGemmAmx::multiplyStep(const KSlice &slice, Value tile, Value step,
                                 int64_t left, int64_t firstColumn,
                                 int64_t count, MeanwhileFn meanwhile) {
  Type i8 = b.builder.getI8Type();
  int firstLeft = mostSums;
  int64_t firstRight = firstLeft + layout.left;
  Value rowTiles = rowsAt(tile, b.add(slice.firstStep, step));
  for (int64_t l = 0; l < left; ++l)
    tiles.load(static_cast<int>(firstLeft + l),
               b.advance(rowTiles, i32s, l * layout.tileRows),
               AmxTiles::rowBytes);
  for (int64_t c = 0; c < count; ++c) {
    int64_t stride = isUnpacked() ? AmxTiles::rowBytes : panelRowBytes;
    Value from = columns[firstColumn + c].packedWords;
    if (isUnpacked())
      from = unpackedAt(firstColumn + c);
    else
      from = b.advance(from, i8, b.mul(slice.word, panelRowBytes));
    from = b.advance(from, i8, b.mul(step, layout.quads * stride));
    auto right =
        static_cast<int>(firstRight + c % (AmxTiles::count - firstRight));
    tiles.load(right, from, stride);
    for (int64_t l = 0; l < left; ++l) {
      tiles.multiplyAdd(static_cast<int>(l * count + c),
                        static_cast<int>(firstLeft + l), right,
                        !unpacker.isInteger ? pairsOf(spec.aType)
                        : isUnpacked()      ? AmxTiles::Kind::SignedByUnsigned
                                            : AmxTiles::Kind::Signed);
      if (meanwhile)
        meanwhile(c * left + l, count * left);
    }
    if (!isUnpacked() && !prefetchesSlices())
      prefetchLines(from, tile);
  }
}

/// Whether the next slice of the weight is prefetched while all rows are
/// multiplied by the current slice. This pays only with so many rows that
/// memory can deliver a slice in the meantime.
bool PackedGemmAmx::prefetchesSlices() const {
  return !unpacker.isInteger && rows > layout.tileRows * layout.tilesOfRows;
}

/// Prefetches some cache lines of the weight's next slice along K. Each step of
/// each row tile prefetches other lines, so that all steps together prefetch
/// the whole slice.
void PackedGemmAmx::prefetchSlice(const KSlice &slice, Value tile, Value step) {
  int64_t together = layout.tilesOfRows;
  int64_t turns = llvm::divideCeil(rows, layout.tileRows * together);
  int64_t lines = llvm::divideCeil(layout.quads * vectors, turns);
  Value turn = b.div(tile, together);
  Value line = b.mul(b.add(b.mul(turn, slice.steps), step), lines * lineBytes);
  Value next =
      b.mul(b.add(slice.word, b.mul(slice.steps, stepWords())), panelRowBytes);
  Type i8 = b.builder.getI8Type();
  for (size_t c = 0; c < columns.size(); c += vectors)
    for (int64_t i = 0; i < lines; ++i)
      b.prefetch(
          b.advance(b.advance(columns[c].packedWords, i8, b.add(next, line)),
                    i8, i * lineBytes));
}

/// Prefetches cache lines of the weight. The emitted code does this only for
/// the first row tile, because the other row tiles read the same lines again.
void PackedGemmAmx::prefetchLines(Value from, Value tile) {
  b.ifThen(b.equal(tile, b.constant(0)), [&] {
    for (int64_t i = 0; i < layout.quads; ++i)
      b.prefetch(
          ahead(b.advance(from, b.builder.getI8Type(), i * panelRowBytes)));
  });
}

} // namespace heddle::cpu
