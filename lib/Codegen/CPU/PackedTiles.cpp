//===- PackedTiles.cpp - Packed products on AMX tiles ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedTiles.h"
#include "PackedPanels.h"
#include "heddle/PlanFormat/Packed.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

namespace {

constexpr int64_t panelWidth = plan::Packed::panelWidth;
constexpr int64_t quadBytes = 4, panelRowBytes = panelWidth * quadBytes;
constexpr int64_t tileBytes = AmxTiles::rows * AmxTiles::rowBytes;
/// Registers of sums, the first ones; tiles of A follow, then those of B.
constexpr int64_t mostSums = 4;
/// Tiles of a smaller part of K are not worth their loads.
constexpr int64_t leastQuads = 8;
/// Of numbers, which have the same sums on vectors: with more, the vectors'
/// products take longer than the weight takes to come from memory.
constexpr int64_t mostRowsOnVectors = 4;
/// Words of a panel, as pairs of bf16, that stay in the first cache.
constexpr int64_t wordsOfPiece = 256;
/// How many bytes ahead lines are fetched, of all panels together.
constexpr int64_t fetchAhead = 8192;

int64_t largestDivisor(int64_t number, int64_t most) {
  for (int64_t divisor = std::min(number, most); divisor > 1; --divisor)
    if (number % divisor == 0)
      return divisor;
  return 1;
}

/// Words that blocks of numbers, or all of K, are multiples of.
int64_t commonWords(const PackedGemmSpec &spec) {
  int64_t perWord = plan::Packed::wordBits / spec.bits;
  if (spec.groups == 0)
    return llvm::divideCeil(spec.k, perWord);
  PackedNumbers::Layout layout(spec);
  int64_t last = llvm::divideCeil(layout.lastLength(), perWord);
  return layout.blocksOfGroup() > 1
             ? std::gcd(layout.blockLength / perWord, last)
             : last;
}

/// Of a word.
int64_t quadsOf(const PackedGemmSpec &spec) { return spec.bits < 8 ? 2 : 1; }

} // namespace

PackedTiles::Layout::Layout(const PackedGemmSpec &spec, int64_t blockRows)
    : quads(quadsOf(spec) *
            largestDivisor(commonWords(spec), AmxTiles::rows / quadsOf(spec))),
      tileRows(std::min(spec.m, AmxTiles::rows)),
      rows(llvm::alignTo(blockRows, tileRows)),
      columns(vectors * std::max<int64_t>(spec.products, 2)) {
  bool hasNumbers = spec.groups > 0;
  int64_t sumBytes = columns * rows * AmxTiles::rowBytes;
  sumsAt = totalsAt + sumBytes;
  wholeAt = sumsAt + (hasNumbers ? sumBytes : 0);
  unpackedAt = wholeAt + (hasNumbers ? mostSums * tileBytes : 0);
  unpackedBytes = 0;
  if (spec.bits < 8) {
    PackedNumbers::Layout numbers(spec);
    int64_t longest = std::max(numbers.blockLength, numbers.lastLength());
    int64_t wordsOfBlock =
        llvm::divideCeil(longest, plan::Packed::wordBits / spec.bits);
    unpackedBytes = wordsOfBlock * quadsOf(spec) * AmxTiles::rowBytes;
  }
  configAt = unpackedAt + columns * unpackedBytes;
  bytes = configAt + AmxTiles::configBytes;
}

bool PackedTiles::make(const PackedGemmSpec &spec, const CpuTarget &target) {
  if (!target.hasAmx)
    return false;
  if (PackedWords::areNumbers(spec, target))
    return spec.m > mostRowsOnVectors && Layout(spec, 1).quads >= leastQuads;
  return spec.aType.isBF16() && spec.bits == 16 &&
         Layout(spec, 1).quads >= leastQuads;
}

PackedTiles::PackedTiles(LoopBuilder &builder, const PackedGemmSpec &spec,
                         const CpuTarget &target, PackedWords &words,
                         PackedNumbers &numbers, PackedSums &sums,
                         const PackedScratch &scratch, Value memory)
    : b(builder), spec(spec), words(words), numbers(numbers), sums(sums),
      scratch(scratch), layout(spec, std::min(spec.m, scratch.blockRows)),
      tiles(builder, target.emulatesAmx), memory(memory),
      i32s(VectorType::get(target.lanes(), builder.builder.getI32Type())),
      f32s(VectorType::get(target.lanes(), builder.builder.getF32Type())) {}

Value PackedTiles::at(int64_t offset) {
  return b.advance(memory, b.builder.getI8Type(), scratch.tilesAt + offset);
}

Value PackedTiles::sumAt(int64_t offset, int64_t column, Value local) {
  return b.advance(at(offset + column * layout.rows * AmxTiles::rowBytes), f32s,
                   local);
}

void PackedTiles::clear(int64_t offset) {
  auto numColumns = static_cast<int64_t>(columns.size());
  b.forLoop(
      b.constant(0), b.constant(numColumns * layout.rows), 1,
      [&](Value row) { b.store(b.zeros(f32s), sumAt(offset, 0, row), 4); });
}

int64_t PackedTiles::leftRegisters() const {
  return digits() > 1 || spec.m > AmxTiles::rows ? 2 : 1;
}

void PackedTiles::configure() {
  AmxTiles::Shape sum{layout.tileRows, AmxTiles::rowBytes},
      left{layout.tileRows, layout.quads * quadBytes},
      right{layout.quads, AmxTiles::rowBytes};
  SmallVector<AmxTiles::Shape> shapes(mostSums, sum);
  shapes.append(leftRegisters(), left);
  shapes.append(AmxTiles::count - shapes.size(), right);
  tiles.configure(at(layout.configAt), shapes);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void PackedTiles::emit(const PackedPart &made, Value first, int64_t count,
                       Value begin, Value end) {
  part = &made;
  firstRow = first;
  rows = count;
  // One tile of A leaves registers for the sums of four tiles of B.
  bool isNarrow = count <= AmxTiles::rows && digits() == 1;
  int64_t streams = isNarrow && made.weights.size() == 1 ? 2 : 1;
  forPanels(b, begin, end, streams,
            [&](ArrayRef<Value> panels) { emitPanels(panels); });
}

void PackedTiles::emitPanels(ArrayRef<Value> panels) {
  Type i8 = b.builder.getI8Type();
  columns.clear();
  for (Value panel : panels)
    for (const PackedWeight &weight : part->weights)
      for (int64_t v = 0; v < vectors; ++v)
        columns.push_back(
            {panel, &weight, v,
             b.advance(b.advance(weight.words, i8,
                                 b.mul(panel, words.count() * panelRowBytes)),
                       i8, v * AmxTiles::rowBytes)});
  clear(layout.totalsAt);
  if (words.numbers)
    b.forLoop(b.constant(0), b.constant(spec.groups), 1,
              [&](Value group) { emitGroup(group); });
  else
    emitPairs();
  finish(panels);
}

/// Products of pairs of bf16: sums stand in the totals between pieces of K.
void PackedTiles::emitPairs() {
  int64_t steps = words.count() / stepWords();
  int64_t perPiece = std::max<int64_t>(wordsOfPiece / stepWords(), 1);
  b.forLoop(b.constant(0), b.constant(steps), perPiece, [&](Value step) {
    Piece piece;
    piece.word = b.mul(step, stepWords());
    piece.steps = b.min(b.constant(perPiece), b.sub(b.constant(steps), step));
    emitRows(piece);
  });
}

/// As PackedGemm::sumGroup: block by block, in the same order.
void PackedTiles::emitGroup(Value group) {
  const PackedNumbers::Layout &blocks = numbers.layout;
  int64_t others = blocks.blocksOfGroup() - 1;
  if (others > 0) {
    clear(layout.sumsAt);
    b.forLoop(b.constant(0), b.constant(others), 1, [&](Value block) {
      emitBlock(group, block, blocks.blockLength);
    });
  }
  emitBlock(group, b.constant(others), blocks.lastLength());
  if (others > 0)
    scaleGroup(group);
}

void PackedTiles::emitBlock(Value group, Value block, int64_t length) {
  const PackedNumbers::Layout &blocks = numbers.layout;
  int64_t perGroup = llvm::divideCeil(words.count(), spec.groups);
  int64_t count = llvm::divideCeil(length, words.perWord);
  Piece piece;
  piece.word = b.add(b.mul(group, perGroup),
                     b.mul(block, blocks.blockLength / words.perWord));
  piece.steps = b.constant(count / stepWords());
  piece.group = group;
  piece.block = b.add(b.mul(group, blocks.blocksOfGroup()), block);
  if (isUnpacked())
    unpack(piece.word, count);
  emitRows(piece);
}

/// Makes bytes of the codes of a block, larger than these by `codeOffset()`.
void PackedTiles::unpack(Value word, int64_t count) {
  for (auto [index, column] : llvm::enumerate(columns)) {
    Value to = unpackedAt(static_cast<int64_t>(index));
    Value from = b.advance(column.words, b.builder.getI8Type(),
                           b.mul(word, panelRowBytes));
    b.forLoop(b.constant(0), b.constant(count), 1, [&](Value i) {
      Value source =
          b.advance(from, b.builder.getI8Type(), b.mul(i, panelRowBytes));
      b.prefetch(ahead(source));
      Value prepared = words.prepare(load(i32s, source));
      for (int64_t step = 0; step < words.steps(); ++step)
        b.store(words.factor(prepared, step),
                b.advance(to, i32s, b.add(b.mul(i, words.steps()), step)), 4);
    });
  }
}

void PackedTiles::emitRows(const Piece &piece) {
  int64_t numTiles = llvm::divideCeil(rows, layout.tileRows);
  int64_t together = leftRegisters() / digits();
  int64_t whole = numTiles / together * together;
  b.forLoop(b.constant(0), b.constant(whole), together,
            [&](Value tile) { emitRowTiles(piece, tile, together); });
  if (whole < numTiles)
    emitRowTiles(piece, b.constant(whole), numTiles - whole);
}

void PackedTiles::emitRowTiles(const Piece &piece, Value tile,
                               int64_t rowTiles) {
  int64_t most = mostSums / (rowTiles * digits());
  auto numColumns = static_cast<int64_t>(columns.size());
  for (int64_t first = 0; first < numColumns; first += most)
    multiply(piece, tile, rowTiles, first, std::min(most, numColumns - first));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value PackedTiles::unpackedAt(int64_t column) {
  return at(layout.unpackedAt + column * layout.unpackedBytes);
}

Value PackedTiles::ahead(Value pointer) {
  auto numPanels = static_cast<int64_t>(columns.size()) / vectors;
  return b.advance(pointer, b.builder.getI8Type(), fetchAhead / numPanels);
}

/// Multiplies tiles `tile` on of the rows by `count` columns. The sums of
/// tile of A `l` are in registers l * count on.
void PackedTiles::multiply(const Piece &piece, Value tile, int64_t rowTiles,
                           int64_t firstColumn, int64_t count) {
  int64_t left = rowTiles * digits();
  auto totalOf = [&](int64_t sum) {
    Value row = b.mul(b.add(tile, sum / count), layout.tileRows);
    return sumAt(layout.totalsAt, firstColumn + sum % count, row);
  };
  for (int64_t sum = 0; sum < left * count; ++sum)
    if (words.numbers)
      tiles.zero(static_cast<int>(sum));
    else
      tiles.load(static_cast<int>(sum), totalOf(sum), AmxTiles::rowBytes);
  b.forLoop(b.constant(0), piece.steps, 1, [&](Value step) {
    multiplyStep(piece, tile, step, left, firstColumn, count);
  });
  for (int64_t sum = 0; sum < left * count; ++sum)
    tiles.store(static_cast<int>(sum),
                words.numbers ? at(layout.wholeAt + sum * tileBytes)
                              : totalOf(sum),
                AmxTiles::rowBytes);
  if (words.numbers)
    addNumbers(piece, tile, rowTiles, firstColumn, count);
}

void PackedTiles::multiplyStep(const Piece &piece, Value tile, Value step,
                               int64_t left, int64_t firstColumn,
                               int64_t count) {
  Type i8 = b.builder.getI8Type();
  int firstLeft = mostSums;
  int64_t firstRight = firstLeft + leftRegisters();
  Value quad =
      b.mul(b.add(b.mul(piece.word, words.steps()), b.mul(step, layout.quads)),
            quadBytes);
  for (int64_t l = 0; l < left; ++l) {
    Value row = b.mul(b.add(tile, l / digits()), layout.tileRows);
    Value from = b.advance(sums.row(row), i8,
                           b.add(quad, l % digits() * numbers.layout.digitsAt));
    tiles.load(static_cast<int>(firstLeft + l), from, scratch.rowBytes);
  }
  for (int64_t c = 0; c < count; ++c) {
    int64_t stride = isUnpacked() ? AmxTiles::rowBytes : panelRowBytes;
    Value from = columns[firstColumn + c].words;
    if (isUnpacked())
      from = unpackedAt(firstColumn + c);
    else
      from = b.advance(from, i8, b.mul(piece.word, panelRowBytes));
    from = b.advance(from, i8, b.mul(step, layout.quads * stride));
    auto right =
        static_cast<int>(firstRight + c % (AmxTiles::count - firstRight));
    tiles.load(right, from, stride);
    for (int64_t l = 0; l < left; ++l)
      tiles.multiplyAdd(static_cast<int>(l * count + c),
                        static_cast<int>(firstLeft + l), right,
                        !words.numbers ? AmxTiles::Kind::Pairs
                        : isUnpacked() ? AmxTiles::Kind::SignedByUnsigned
                                       : AmxTiles::Kind::Signed);
    if (!isUnpacked())
      fetch(from, tile);
  }
}

/// Fetches lines ahead, once for all rows.
void PackedTiles::fetch(Value from, Value tile) {
  b.ifThen(b.equal(tile, b.constant(0)), [&] {
    for (int64_t i = 0; i < layout.quads; ++i)
      b.prefetch(
          ahead(b.advance(from, b.builder.getI8Type(), i * panelRowBytes)));
  });
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Adds what whole numbers stand for to the sums of their group, or to the
/// totals where the block is all of it.
void PackedTiles::addNumbers(const Piece &piece, Value tile, int64_t rowTiles,
                             int64_t firstColumn, int64_t count) {
  bool isGroup = numbers.layout.blocksOfGroup() == 1;
  auto addRow = [&](Value local, Value inTile, int64_t rowTile, int64_t c,
                    PackedSums::Scale scale) {
    SmallVector<Value> whole;
    for (int64_t digit = 0; digit < digits(); ++digit) {
      int64_t sum = (rowTile * digits() + digit) * count + c;
      whole.push_back(load(
          i32s, b.advance(at(layout.wholeAt + sum * tileBytes), i32s, inTile)));
    }
    Value row = sums.row(local);
    if (isUnpacked())
      whole[0] = b.create<arith::AddIOp>(whole[0],
                                         numbers.beginOfSums(row, piece.block));
    int64_t column = firstColumn + c;
    if (!isGroup) {
      Value to = sumAt(layout.sumsAt, column, local);
      b.store(numbers.addBlock(row, piece.block, whole, load(f32s, to)), to, 4);
      return;
    }
    Value sum = numbers.addBlock(row, piece.block, whole, b.zeros(f32s));
    Value to = sumAt(layout.totalsAt, column, local);
    b.store(sums.scaled(scale, sum, local, piece.group, load(f32s, to)), to, 4);
  };
  for (int64_t rowTile = 0; rowTile < rowTiles; ++rowTile) {
    Value first = b.mul(b.add(tile, rowTile), layout.tileRows);
    Value inside =
        b.min(b.constant(layout.tileRows), b.sub(b.constant(rows), first));
    for (int64_t c = 0; c < count; ++c) {
      const Column &column = columns[firstColumn + c];
      PackedSums::Scale scale;
      if (isGroup)
        scale = sums.scaleOf(*column.weight, column.panel, piece.group,
                             column.vector);
      b.forLoop(b.constant(0), inside, 1, [&](Value i) {
        addRow(b.add(first, i), i, rowTile, c, scale);
      });
    }
  }
}

/// Adds the sums of a group to the totals.
void PackedTiles::scaleGroup(Value group) {
  for (auto [index, column] : llvm::enumerate(columns)) {
    auto at = static_cast<int64_t>(index);
    PackedSums::Scale scale =
        sums.scaleOf(*column.weight, column.panel, group, column.vector);
    b.forLoop(b.constant(0), b.constant(rows), 1, [&](Value local) {
      Value sum = load(f32s, sumAt(layout.sumsAt, at, local));
      Value to = sumAt(layout.totalsAt, at, local);
      b.store(sums.scaled(scale, sum, local, group, load(f32s, to)), to, 4);
    });
  }
}

void PackedTiles::finish(ArrayRef<Value> panels) {
  auto numWeights = static_cast<int64_t>(part->weights.size());
  auto finishVector = [&](int64_t panel, int64_t v) {
    Value column =
        b.add(b.mul(panels[panel], panelWidth), v * f32s.getNumElements());
    b.forLoop(b.constant(0), b.constant(rows), 1, [&](Value local) {
      SmallVector<Value> ofRow;
      for (int64_t w = 0; w < numWeights; ++w)
        ofRow.push_back(
            load(f32s, sumAt(layout.totalsAt,
                             (panel * numWeights + w) * vectors + v, local)));
      sums.store(*part, ofRow, b.add(firstRow, local), column);
    });
  };
  for (int64_t panel = 0; panel < static_cast<int64_t>(panels.size()); ++panel)
    for (int64_t v = 0; v < vectors; ++v)
      finishVector(panel, v);
}

} // namespace heddle::cpu
