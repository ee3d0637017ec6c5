//===- PackedUnits.cpp - Units of products with packed weights ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads rows of x, and multiplies them by words of a packed weight: by
// mma.sync, or by FMA in f32. Which elements of x a lane loads follows from the
// order of words in the layout: along k, a product may have any order that is
// the same for both operands.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "PackedTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <numeric>

using namespace mlir;

namespace heddle::gpu {

FragmentShape::FragmentShape(const codegen::Product &product, const Chip &chip)
    : weight(cast<nn::PackedLinearOp>(product.op).getPacked()), rows(product.m),
      groups(product.groups), inputBlock(product.inputBlock),
      halvesOfGroup(weight.groupWords() / halfWords),
      beginsEarly(chip.beginsEarly()) {
  if (groups == 0)
    weightType = getElementTypeOrSelf(product.b.getType());
  if (inputBlock > 0)
    halvesOfScale = std::min<int64_t>(
        llvm::divideCeil(inputBlock, halfInputs()), halvesOfGroup);
  else if (groups > 1)
    halvesOfScale = halvesOfGroup;
  if (halvesOfScale > 0)
    blocksOfUnit =
        std::lcm(groups > 1 ? halvesOfGroup : halvesOfScale, int64_t(2)) / 2;
  Type input = getElementTypeOrSelf(product.a.getType());
  isMma =
      inputBlock > 0 || (!input.isF32() && (hasCodes() || weightType == input));
  chooseStep();
  blocksOfUnit = std::lcm(blocksOfUnit, stepBlocks);
  parts = std::min(mostParts, units());
  chooseTile();
}

/// Chooses how many blocks the loop multiplies in a step: several, if all steps
/// have as many, and sums are scaled at the same halves of each step.
void FragmentShape::chooseStep() {
  if (!isMma)
    return;
  auto isRegular = [&](int64_t halves) {
    if (halvesOfScale == 0)
      return true;
    if (halvesOfScale % halves != 0 && halves % halvesOfScale != 0)
      return false;
    return groups <= 1 ||
           (halvesOfGroup % halvesOfScale == 0 &&
            (halvesOfGroup % halves == 0 || halves % halvesOfGroup == 0));
  };
  for (stepBlocks = hasCodes() ? 2 : 4; stepBlocks > 1; stepBlocks /= 2)
    if (weight.blocks() % stepBlocks == 0 && isRegular(stepHalves()))
      return;
}

int64_t FragmentShape::halvesOfChunk() const {
  int64_t halves = stepHalves();
  if (groups > 1)
    halves = std::gcd(halves, halvesOfGroup);
  return halvesOfScale > 0 ? std::gcd(halves, halvesOfScale) : halves;
}

/// Chooses how many rows a block multiplies at once: as many as the registers
/// of a warp hold sums of. setPanels may divide them among two warps.
void FragmentShape::chooseTile() {
  constexpr int64_t mostTiles = 8;
  if (!isMma) {
    // Sums that are scaled take twice the registers.
    tileRows = std::min<int64_t>(rows, halvesOfScale > 0 ? 16 : 32);
    return;
  }
  int64_t tiles = llvm::divideCeil(rows, mmaN);
  int64_t blocks = llvm::divideCeil(tiles, mostTiles);
  tileRows = static_cast<int64_t>(llvm::divideCeil(tiles, blocks)) * mmaN;
}

/// With a ring for each warp, two slots of each must fit in shared memory, such
/// that a multiprocessor has several blocks. Fewer blocks in a step do not
/// change the order of sums.
void FragmentShape::setPanels(int64_t count) {
  constexpr int64_t elementBytes = 2;
  // Weights are unpacked by two warps then, which pays with many rows only.
  constexpr int64_t manyRows = 32;
  panelsOfBlock = count;
  if (count > 1 && tileRows > manyRows) {
    panelsOfWarp = 2;
    tileRows = static_cast<int64_t>(llvm::alignTo(tileRows, 2 * mmaN));
  }
  auto slotBytes = [&] {
    return stepBlocks * blockBytes +
           (keepsRows ? 0 : tileRows * stepInputs() * elementBytes);
  };
  while (count == 1 && stepBlocks > 1 && 2 * parts * slotBytes() > ringMemory)
    stepBlocks /= 2;
}

int64_t FragmentShape::storedRows() const {
  return tileRows > mmaN ? tileRows : std::min(rows, tileRows);
}

Value FragmentShape::firstPanel(ThreadCode &c) const {
  if (warpsDivideK())
    return c.constant(0);
  Value warp = c.div(c.threadId(), warpSize);
  return c.mul(c.rem(warp, panelsOfBlock / panelsOfWarp), panelsOfWarp);
}

Value FragmentShape::firstRowOfWarp(ThreadCode &c) const {
  if (panelsOfWarp == 1)
    return c.constant(0);
  Value warp = c.div(c.threadId(), warpSize);
  return c.mul(c.div(warp, panelsOfBlock / panelsOfWarp), rowsOfWarp());
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Whether the elements of a word are in x or outside of it together, and one
/// access loads them.
bool RowReader::isWhole() const {
  return stride % shape.perWord() == 0 &&
         shape.weight.inputs() % shape.perWord() == 0;
}

/// Returns the condition that an element is in x and, in the padding of a
/// quantization group, not after the group's `end`. Null: it always is.
Value RowReader::inside(const Position &place, Value input, Value end) const {
  Value condition;
  if (place.checksRow)
    condition = c.less(c.add(place.firstRow, c.add(place.row, place.moved)),
                       shape.rows);
  if (!shape.fillsBlocks())
    condition = c.both(condition, c.less(input, end));
  return condition;
}

Value RowReader::loadInside(Type type, Value row, Value input,
                            Value condition) const {
  Value offset = c.add(c.mul(c.wide(row), stride), c.wide(input));
  Value pointer = c.at(memory, c.mul(offset, dist::byteSize(element)));
  if (condition)
    pointer = c.create<arith::SelectOp>(condition, pointer, memory);
  return c.orZero(condition, c.load(type, pointer));
}

SmallVector<Value> RowReader::load(const Position &place, bool asPairs) const {
  OpBuilder &b = c.builder;
  int64_t perWord = shape.perWord();
  if (slot)
    return asPairs ? loadFromSlot(place, b.getI32Type(), perWord / 2)
                   : loadFromSlot(place, element, perWord);
  Value row = c.add(place.firstRow, c.add(place.row, place.moved));
  Value half = shape.number(c, place.half);
  Value first = c.mul(half, shape.halfInputs());
  Value end = c.constant(shape.weight.inputs());
  if (shape.isPadded()) {
    Value group = c.div(half, shape.halvesOfGroup);
    first = c.add(c.mul(group, shape.weight.groupLength()),
                  c.mul(c.rem(half, shape.halvesOfGroup), shape.halfInputs()));
    end = c.create<arith::MinSIOp>(
        end, c.mul(c.add(group, 1), shape.weight.groupLength()));
  }
  first = c.add(first, c.mul(place.word, perWord));
  if (isWhole()) {
    Value condition = inside(place, first, end);
    int64_t count = asPairs ? perWord / 2 : perWord;
    Type type = asPairs ? b.getI32Type() : element;
    if (count > 1)
      type = VectorType::get({count}, type);
    Value all = loadInside(type, row, first, condition);
    SmallVector<Value> values = {all};
    if (count > 1)
      values = c.elements(all);
    if (!asPairs)
      for (Value &value : values)
        value = c.widen(value);
    return values;
  }
  SmallVector<Value> values;
  for (int64_t i = 0; i < perWord; ++i) {
    Value input = c.add(first, i);
    Value condition = inside(place, input, end);
    if (!asPairs) {
      values.push_back(c.widen(loadInside(element, row, input, condition)));
      continue;
    }
    Value bits = c.create<arith::ExtUIOp>(
        b.getI32Type(), loadInside(b.getI16Type(), row, input, condition));
    if (i % 2 == 0)
      values.push_back(bits);
    else
      values.back() = c.create<arith::OrIOp>(
          values.back(), c.create<arith::ShLIOp>(bits, c.constant(16)));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Rows in slots
//===----------------------------------------------------------------------===//

/// Units of 16 bytes across all banks of shared memory.
static constexpr int64_t unitsOfBanks = 8;

/// The units of a row that are multiplied by one half of a block. They matter
/// for tensor cores only: lanes that multiply by FMA load the same row.
int64_t RowReader::unitsOfHalf() const {
  return shape.halfInputs() * elementBytes() / accessBytes;
}

/// The number of rows that have different keys.
int64_t RowReader::numKeys() const {
  return shape.isMma ? std::min(units(), unitsOfBanks) / unitsOfHalf() : 1;
}

/// The number of adjacent rows that have the same key: they fill the banks.
int64_t RowReader::rowsOfKey() const {
  return std::max<int64_t>(1, unitsOfBanks / units());
}

/// Returns the key of a row in a slot: 16-byte unit i of the row is stored at
/// index i xor key. Lanes whose words are multiplied by the same half of eight
/// rows then read from different banks.
Value RowReader::unitKey(Value row) const {
  return c.mul(c.rem(c.div(row, rowsOfKey()), numKeys()), unitsOfHalf());
}

/// The number of halves after which addresses of a row repeat, moved by a
/// constant.
int64_t RowReader::numBases() const {
  if (!shape.isMma)
    return 1;
  return std::min(shape.stepHalves(), unitsOfBanks / unitsOfHalf());
}

void RowReader::prepareLoads(Value slots, Value row, Value word) {
  if (shape.isMma && shape.storedRows() < mmaN)
    row = c.create<arith::MinSIOp>(row, c.constant(shape.storedRows() - 1));
  Value key = unitKey(row);
  Value inHalf = c.mul(word, shape.perWord() * elementBytes());
  for (int64_t half = 0; half < numBases(); ++half) {
    Value unit = c.add(c.div(inHalf, accessBytes), half * unitsOfHalf());
    Value offset = c.add(c.mul(c.exclusiveOr(unit, key), accessBytes),
                         c.rem(inHalf, accessBytes));
    bases.push_back(c.at(slots, c.wide(c.add(c.mul(row, rowBytes()), offset))));
  }
}

SmallVector<Value> RowReader::loadFromSlot(const Position &place, Type type,
                                           int64_t count) const {
  int64_t typeBytes = dist::byteSize(type);
  int64_t turn = place.half.inStep / numBases();
  Value base = c.at(bases[place.half.inStep % numBases()], slot);
  int64_t moved = place.moved * rowBytes() +
                  turn * numBases() * shape.halfInputs() * elementBytes();
  SmallVector<Value> values;
  int64_t perAccess = std::min(count, accessBytes / typeBytes);
  for (int64_t i = 0; i < count; i += perAccess) {
    Value pointer = c.at(base, moved + i * typeBytes);
    if (perAccess == 1)
      values.push_back(c.load(type, pointer));
    else
      llvm::append_range(values,
                         c.elements(c.loadVector(type, perAccess, pointer)));
  }
  if (isa<FloatType>(type))
    for (Value &value : values)
      value = c.widen(value);
  return values;
}

Value RowReader::prepareCopies(Value slots, Value thread, int64_t threads,
                               Value firstRow, Value step) {
  int64_t all = shape.storedRows() * units();
  assert(threads % units() == 0 && "a thread copies the same unit of rows");
  // Rows whose distance is a multiple of `period` have the same key: their
  // addresses differ by a constant.
  int64_t perCopy = threads / units(), period = rowsOfKey() * numKeys();
  SmallVector<Value> targets;
  for (int64_t first = 0; first < all; first += threads) {
    Value index = c.add(thread, first);
    Value row = c.div(index, units()), unit = c.rem(thread, units());
    auto number = static_cast<int64_t>(copies.size());
    int64_t numTargets = std::max<int64_t>(1, period / perCopy);
    if (number < numTargets)
      targets.push_back(
          c.at(slots, c.wide(c.add(c.mul(row, rowBytes()),
                                   c.mul(c.exclusiveOr(unit, unitKey(row)),
                                         accessBytes)))));
    Copy copy;
    copy.target = targets[number % numTargets];
    copy.inSlot = number / numTargets * numTargets * perCopy * rowBytes();
    copy.moved = number * perCopy * stride * elementBytes();
    copy.unit = unit;
    if (shape.rows % shape.storedRows() != 0)
      copy.present = c.orZero(c.less(c.add(firstRow, row), shape.rows),
                              c.constant(accessBytes));
    if (all - first < threads)
      copy.condition = c.less(index, all);
    copies.push_back(copy);
  }
  Value row = c.add(firstRow, c.div(thread, units()));
  Value input =
      c.add(c.mul(step, shape.stepInputs()),
            c.mul(c.rem(thread, units()), accessBytes / elementBytes()));
  Value element = c.add(c.mul(c.wide(row), stride), c.wide(input));
  return c.at(memory, c.mul(element, elementBytes()));
}

void RowReader::startCopies(Value offset, Value source, Value step) const {
  int64_t perUnit = accessBytes / elementBytes();
  auto start = [&](const Copy &copy) {
    Value present = copy.present;
    if (!shape.fillsBlocks()) {
      Value input =
          c.add(c.mul(step, shape.stepInputs()), c.mul(copy.unit, perUnit));
      Value left = c.mul(c.sub(c.constant(shape.weight.inputs()), input),
                         elementBytes());
      left = c.create<arith::MaxSIOp>(left, c.constant(0));
      present = c.create<arith::MinSIOp>(
          present ? present : c.constant(accessBytes), left);
    }
    copyUnit(c, c.at(copy.target, offset), copy.inSlot, source, copy.moved,
             present, /*isCached=*/true);
  };
  for (const Copy &copy : copies) {
    if (!copy.condition) {
      start(copy);
      continue;
    }
    InsideIf inside(c, copy.condition);
    start(copy);
  }
}

void RowReader::store(Value resident, Value row, Value input,
                      ArrayRef<Value> elements) const {
  int64_t bytes = dist::byteSize(elements[0].getType());
  int64_t perUnit = accessBytes / bytes, ofUnit = accessBytes / elementBytes();
  auto count = static_cast<int64_t>(elements.size());
  Value inStep = c.rem(input, shape.stepInputs());
  Value step = c.div(input, shape.stepInputs());
  Value inSlot = c.add(c.mul(step, slotBytes()), c.mul(row, rowBytes()));
  for (int64_t at = 0; at < count; at += perUnit) {
    Value first = c.add(inStep, at / perUnit * ofUnit);
    Value unit = c.exclusiveOr(c.div(first, ofUnit), unitKey(row));
    Value inUnit = c.mul(c.rem(inStep, ofUnit), elementBytes());
    c.storeVector(
        elements.slice(at, std::min(perUnit, count)),
        c.at(resident,
             c.wide(c.add(inSlot, c.add(c.mul(unit, accessBytes), inUnit)))));
  }
}

PackedUnit::PackedUnit(ThreadCode &c, const FragmentShape &shape,
                       const RowReader &rows)
    : c(c), shape(shape), rows(rows), lane(c.rem(c.threadId(), warpSize)) {}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

namespace {
/// The weight is the left operand of mma.sync, and eight rows of x the right
/// one. A fragment of floats is a block; codes of a half fill one or two
/// fragments.
class PackedMma : public PackedUnit {
public:
  PackedMma(ThreadCode &c, const FragmentShape &shape, const RowReader &rows,
            Type type)
      : PackedUnit(c, shape, rows), type(type),
        mma(static_cast<const MmaUnit &>(
            unitFor(type, type, config::Matmul::Ieee))),
        firstRowOfWarp(shape.firstRowOfWarp(c)),
        offsets(2 * shape.panelsOfWarp) {
    if (shape.hasCodes())
      offsets.assign(offsets.size(),
                     codeOffsets(c, shape.weight.bits, type, Value()));
  }

  int64_t numSums() const override {
    return shape.panelsOfWarp * numTiles() * sumsOfTile;
  }
  void setZeros(ArrayRef<Value> zeros) override {
    for (auto [offset, zero] : llvm::zip(offsets, zeros))
      offset = codeOffsets(c, shape.weight.bits, type, zero);
  }
  void multiply(ArrayRef<Value> words, Value firstRow, HalfIndex half,
                MutableArrayRef<Value> sums) override;
  Value row() const override { return c.add(firstRowOfWarp, c.div(lane, 4)); }
  void forSums(MutableArrayRef<Value> sums, SumBody body) override;
  Value join(MutableArrayRef<Value>) override { return {}; }

private:
  static constexpr int64_t sumsOfTile = 4;

  int64_t numTiles() const { return shape.rowsOfWarp() / mmaN; }
  SmallVector<SmallVector<Value>> leftFragments(ArrayRef<Value> words,
                                                int64_t panel) const;
  void multiplyBlock(ArrayRef<SmallVector<SmallVector<Value>>> left,
                     int64_t halves, Value firstRow, HalfIndex half,
                     MutableArrayRef<Value> sums);

  Type type;
  const MmaUnit &mma;
  Value firstRowOfWarp;
  SmallVector<Value> offsets;
};
} // namespace

/// The left fragments of `words` of a panel, in the order in which they are
/// multiplied.
SmallVector<SmallVector<Value>> PackedMma::leftFragments(ArrayRef<Value> words,
                                                         int64_t panel) const {
  if (!shape.hasCodes())
    return {SmallVector<Value>(words)};
  SmallVector<SmallVector<Value>> fragments;
  for (size_t at = 0; at < words.size(); at += 2) {
    SmallVector<Value> pairs[2];
    for (int64_t i = 0; i < 2; ++i)
      pairs[i] = codePairs(c, shape.weight.bits, type, words[at + i],
                           offsets[2 * panel + i]);
    for (size_t pair = 0; pair < pairs[0].size(); pair += 2)
      fragments.push_back({pairs[0][pair], pairs[1][pair], pairs[0][pair + 1],
                           pairs[1][pair + 1]});
  }
  return fragments;
}

/// Multiplies the left fragments of a block of each panel, which has so many
/// halves.
void PackedMma::multiplyBlock(ArrayRef<SmallVector<SmallVector<Value>>> left,
                              int64_t halves, Value firstRow, HalfIndex half,
                              MutableArrayRef<Value> sums) {
  for (int64_t tile = 0; tile < numTiles(); ++tile) {
    SmallVector<Value> right;
    for (int64_t i = 0; i < halves; ++i)
      llvm::append_range(
          right, rows.load(positionOf(firstRow, tile * mmaN, half.plus(i)),
                           /*asPairs=*/true));
    for (int64_t panel = 0; panel < shape.panelsOfWarp; ++panel) {
      int64_t firstSum = (panel * numTiles() + tile) * sumsOfTile;
      for (auto [i, fragment] : llvm::enumerate(left[panel]))
        mma.multiply(c, fragment, ArrayRef(right).slice(2 * i, 2),
                     sums.slice(firstSum, sumsOfTile));
    }
  }
}

/// Multiplies block by block, so that few fragments are in registers.
void PackedMma::multiply(ArrayRef<Value> words, Value firstRow, HalfIndex half,
                         MutableArrayRef<Value> sums) {
  int64_t ofPanel = static_cast<int64_t>(words.size()) / shape.panelsOfWarp;
  int64_t count = std::min<int64_t>(ofPanel, FragmentShape::halfWords);
  for (int64_t first = 0; first < ofPanel; first += count) {
    SmallVector<SmallVector<SmallVector<Value>>> left;
    for (int64_t panel = 0; panel < shape.panelsOfWarp; ++panel)
      left.push_back(
          leftFragments(words.slice(panel * ofPanel + first, count), panel));
    multiplyBlock(left, count / 2, firstRow, half.plus(first / 2), sums);
  }
}

void PackedMma::forSums(MutableArrayRef<Value> sums, SumBody body) {
  Value row = c.add(firstRowOfWarp, c.mul(c.rem(lane, 4), 2));
  int64_t next = 0;
  for (int64_t panel = 0; panel < shape.panelsOfWarp; ++panel)
    for (int64_t tile = 0; tile < numTiles(); ++tile)
      for (int64_t i = 0; i < sumsOfTile; ++i)
        body(c.add(row, tile * mmaN + i % 2), 2 * panel + i / 2, sums[next++]);
}

std::unique_ptr<PackedUnit> createPackedMma(ThreadCode &c,
                                            const FragmentShape &shape,
                                            const RowReader &rows, Type type) {
  return std::make_unique<PackedMma>(c, shape, rows, type);
}

//===----------------------------------------------------------------------===//
// FMA
//===----------------------------------------------------------------------===//

namespace {
/// A lane multiplies its words by all rows of the tile. Four adjacent lanes
/// have parts of the same sums.
class PackedFma : public PackedUnit {
public:
  using PackedUnit::PackedUnit;

  int64_t numSums() const override { return shape.tileRows * 2; }
  void setZeros(ArrayRef<Value> newZeros) override {
    zeros.assign(newZeros.begin(), newZeros.end());
  }
  void multiply(ArrayRef<Value> words, Value firstRow, HalfIndex half,
                MutableArrayRef<Value> sums) override;
  Value row() const override { return c.constant(0); }
  void forSums(MutableArrayRef<Value> sums, SumBody body) override {
    for (auto [i, sum] : llvm::enumerate(sums))
      body(c.constant(static_cast<int64_t>(i) / 2), i % 2, sum);
  }
  Value join(MutableArrayRef<Value> sums) override;

private:
  SmallVector<Value> zeros;
};
} // namespace

void PackedFma::multiply(ArrayRef<Value> words, Value firstRow, HalfIndex half,
                         MutableArrayRef<Value> sums) {
  for (size_t i = 0; i < words.size() / 2; ++i) {
    SmallVector<SmallVector<Value>> left;
    for (int64_t output = 0; output < 2; ++output) {
      left.push_back(wordFloats(c, shape.weight.bits, shape.weightType,
                                words[2 * i + output]));
      if (!zeros.empty())
        for (Value &value : left.back())
          value = c.create<arith::SubFOp>(value, zeros[output]);
    }
    for (int64_t row = 0; row < shape.tileRows; ++row) {
      SmallVector<Value> right = rows.load(
          positionOf(firstRow, row, half.plus(static_cast<int64_t>(i))),
          /*asPairs=*/false);
      for (int64_t output = 0; output < 2; ++output)
        for (auto [x, w] : llvm::zip(right, left[output])) {
          Value &sum = sums[row * 2 + output];
          sum = c.create<math::FmaOp>(x, w, sum);
        }
    }
  }
}

Value PackedFma::join(MutableArrayRef<Value> sums) {
  for (Value &sum : sums)
    sum = acrossLanes(
        c.builder, c.loc, sum, FragmentShape::halfWords,
        [&](Value a, Value b) { return c.create<arith::AddFOp>(a, b); });
  return c.less(word(), 1);
}

std::unique_ptr<PackedUnit> createPackedFma(ThreadCode &c,
                                            const FragmentShape &shape,
                                            const RowReader &rows) {
  return std::make_unique<PackedFma>(c, shape, rows);
}

} // namespace heddle::gpu
