//===- PackedGemm.cpp - Products with packed weights for x86-64 -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedGemm.h"
#include "IntegerActivations.h"
#include "PackedGemmAmx.h"
#include "PackedPanels.h"
#include "dialects/Dist/ByteSize.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::cpu {

namespace {

constexpr int64_t wordBytes = 4, panelRowBytes = panelWidth * wordBytes;
/// The largest number of streams of memory that a thread reads. With more, a
/// core reads all of them more slowly.
constexpr int64_t mostStreams = 4;
/// The distance of prefetches in bytes, for all streams together: about what
/// memory delivers during the latency of one cache line.
constexpr int64_t fetchAhead = 8192;
/// Threads take parts of a weight dynamically. The first cache lines of a part
/// are not prefetched, so a part must be large enough that this costs little.
/// If A has up to `fewRows` rows, a part has at least `leastBytes` bytes. With
/// more rows each byte takes longer to multiply, so parts may be smaller in
/// proportion, down to `leastBytes` / `mostTimes`.
constexpr int64_t leastBytes = 1 << 18, fewRows = 4, mostTimes = 16;
/// 16-bit integer activations are split into two 8-bit digits, a high and a low
/// one, if the sums of both digits need at most `fewSums` registers for all
/// rows.
constexpr int64_t fewSums = 8;

class PackedGemm {
public:
  PackedGemm(LoopBuilder &b, const PackedGemmSpec &spec,
             const CpuTarget &target, PackedRowFn rowOf, Value scratchMemory,
             ArrayRef<FusedProducts> parts)
      : b(b), spec(spec), rowOf(std::move(rowOf)), scratchMemory(scratchMemory),
        parts(parts), panelVectors(panelWidth / target.lanes()),
        lanes(target.lanes()), sumVectors(target.hasAvx512 ? 24 : 10),
        usesAmx(PackedGemmAmx::isUsedFor(spec, target)),
        unpacker(b, spec, target, /*inDigits=*/usesAmx || hasFewSums()),
        activations(b, spec, unpacker, target.lanes()), scratch(spec, target),
        sums(b, spec, scratch, scratchMemory, target.lanes()),
        amx(b, spec, target, unpacker, activations, sums, scratch,
            scratchMemory),
        f32s(VectorType::get(lanes, b.builder.getF32Type())) {}

  void emit(const LaunchThread &self);

private:
  using Values = LoopBuilder::Values;

  /// The rows of a chunk are computed together, so that a weight is unpacked
  /// once for all of them. Returns the length of the chunks into which to split
  /// `count` rows. The registers hold the sums of a chunk, and all chunks have
  /// about equal length.
  int64_t chunkOf(int64_t count) const {
    int64_t most = std::max<int64_t>(sumVectors / sumsOfRow(), 1);
    return llvm::divideCeil(count, llvm::divideCeil(count, most));
  }
  int64_t numWeights() const {
    return static_cast<int64_t>(part->weights.size());
  }
  /// Whether the sums of all rows need at most `fewSums` registers if 16-bit
  /// integer activations are split into two 8-bit digits. Then each element of
  /// C has two sums: one for the high and one for the low digits.
  bool hasFewSums() const {
    size_t weights = 1;
    for (const FusedProducts &each : parts)
      weights = std::max(weights, each.weights.size());
    int64_t elements = panelVectors * static_cast<int64_t>(weights) * spec.m;
    return 2 * elements <= fewSums;
  }
  /// The number of vectors of sums that a tile has for one row of A.
  int64_t sumsOfRow() const { return vectors * numWeights() * unpacker.digits; }
  static int64_t panelsOf(const FusedProducts &part) {
    return llvm::divideCeil(part.n, panelWidth);
  }
  /// The number of units of work in `part`, which are distributed over threads.
  int64_t unitsOf(const FusedProducts &part) const {
    return llvm::divideCeil(panelsOf(part), spec.panelsTogether);
  }
  bool hasZeros() const {
    return llvm::any_of(parts, [](const FusedProducts &part) {
      return bool(part.weights.front().zeros);
    });
  }
  // Preparation of rows of A.
  void prepare(Value firstRow, Value count);
  void prepareRow(Value from, Value to);
  void sumGroups(Value row, Value sums);
  // The loops.
  int64_t leastUnits() const;
  void emitUnits(Value first, int64_t count, Value begin, Value end);
  void emitPanels(Value first, int64_t count, Value begin, Value end);
  void emitRows(Value first, int64_t count, ArrayRef<Value> panels);
  // The micro-kernel.
  void emitTile(Value firstRow, ArrayRef<Value> panels, int64_t rows);
  Values sumWords(ArrayRef<Value> sources, Value row, Value begin,
                  int64_t count, int64_t rows, ValueRange sums);
  Values sumGroup(ArrayRef<Value> sources, Value row, Value group,
                  int64_t rows);
  Values sumBlock(ArrayRef<Value> sources, Value row, Value block, Value begin,
                  int64_t length, int64_t rows, ValueRange sums);
  Values multiplyWord(ArrayRef<Value> sources, Value row, Value word,
                      int64_t rows, ValueRange sums);
  Values scaleGroup(ValueRange sums, ValueRange totals, ArrayRef<Value> panels,
                    Value firstRow, Value group, int64_t rows);
  void storeTile(ValueRange sums, Value firstRow, ArrayRef<Value> panels,
                 int64_t rows);
  Value bytes(Value pointer, Value count) {
    return b.advance(pointer, b.builder.getI8Type(), count);
  }
  Value bytes(Value pointer, int64_t count) {
    return b.advance(pointer, b.builder.getI8Type(), count);
  }

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  PackedRowFn rowOf;
  Value scratchMemory;
  ArrayRef<FusedProducts> parts;
  const FusedProducts *part = nullptr; ///< The products being emitted.
  int64_t panelVectors; ///< The number of vectors in a row of a panel's words.
  /// The tile being emitted computes `vectors` vectors of columns of a panel,
  /// from vector `firstVector` on.
  int64_t firstVector = 0, vectors = 0;
  int64_t lanes, sumVectors;
  bool usesAmx;
  WeightUnpacker unpacker;
  IntegerActivations activations; ///< Used if `unpacker.isInteger`.
  PackedScratch scratch;
  PackedSums sums;
  PackedGemmAmx amx; ///< Used if `usesAmx`.
  VectorType f32s;
};

} // namespace

//===----------------------------------------------------------------------===//
// Rows of A
//===----------------------------------------------------------------------===//

/// Copies a row of A (K elements) from `from` to `to`, as f32, or as bf16 if
/// pairs of bf16 are multiplied. A packed word of B has several values along K,
/// and the last word may extend beyond K. So the copy is padded with zeros to
/// whole words.
void PackedGemm::prepareRow(Value from, Value to) {
  Type kept = unpacker.dot ? spec.aType : b.builder.getF32Type();
  auto type = VectorType::get(lanes, spec.aType);
  int64_t all = unpacker.count() * unpacker.perWord;
  unsigned alignment = dist::byteSize(spec.aType);
  auto copy = [&](Value at, Value readMask, Value writeMask) {
    Value x =
        b.load(type, b.advance(from, spec.aType, at), alignment, readMask);
    if (!unpacker.dot)
      x = b.widen(x);
    b.store(x, b.advance(to, kept, at), dist::byteSize(kept), writeMask);
  };
  int64_t full = spec.k / lanes * lanes;
  b.forLoop(b.constant(0), b.constant(full), lanes,
            [&](Value at) { copy(at, nullptr, nullptr); });
  for (int64_t at = full; at < all; at += lanes)
    copy(b.constant(at), b.mask(b.constant(spec.k - at), lanes),
         b.mask(b.constant(all - at), lanes));
}

/// Computes the sum of the elements of A in each group of a row (elements whose
/// weights have a common scale). `scaleGroup` multiplies this sum by the
/// weight's zero points.
void PackedGemm::sumGroups(Value row, Value sums) {
  int64_t length = spec.k / spec.groups, full = length / lanes * lanes;
  Type kept = unpacker.dot ? spec.aType : b.builder.getF32Type();
  auto type = VectorType::get(lanes, kept);
  b.forLoop(b.constant(0), b.constant(spec.groups), 1, [&](Value group) {
    Value first = b.advance(row, kept, b.mul(group, length));
    auto load = [&](Value at, Value mask) {
      return b.widen(
          b.load(type, b.advance(first, kept, at), dist::byteSize(kept), mask));
    };
    Values sum = b.forLoop(
        b.constant(0), b.constant(full), lanes, {b.zeros(f32s)},
        [&](Value at, ValueRange carried) -> Values {
          return {b.create<arith::AddFOp>(carried[0], load(at, nullptr))};
        });
    if (full < length)
      sum[0] = b.create<arith::AddFOp>(
          sum[0],
          load(b.constant(full), b.mask(b.constant(length - full), lanes)));
    Value total =
        b.create<vector::ReductionOp>(vector::CombiningKind::ADD, sum[0]);
    b.store(total, b.advance(sums, b.builder.getF32Type(), group), 4);
  });
}

void PackedGemm::prepare(Value firstRow, Value count) {
  b.forLoop(b.constant(0), count, 1, [&](Value row) {
    Value from = rowOf(b.add(firstRow, row));
    Value to = sums.row(usesAmx ? b.constant(0) : row), groupSums;
    if (hasZeros())
      groupSums = sums.groupSum(row, b.constant(0));
    if (unpacker.isInteger) {
      activations.prepareRow(from, to, groupSums);
    } else {
      prepareRow(from, to);
      if (groupSums)
        sumGroups(to, groupSums);
    }
    if (usesAmx)
      amx.takeRow(to, row);
  });
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Computes the columns of `panels` for rows `first` to `first` + `count`
/// (exclusive). The rows are computed in chunks, one after the other, while the
/// panels stay in a cache.
void PackedGemm::emitRows(Value first, int64_t count, ArrayRef<Value> panels) {
  int64_t rows = chunkOf(count), done = count / rows * rows;
  for (firstVector = 0; firstVector < panelVectors; firstVector += vectors) {
    if (done == rows) {
      emitTile(first, panels, rows);
    } else {
      b.forLoop(b.constant(0), b.constant(done), rows,
                [&](Value row) { emitTile(b.add(first, row), panels, rows); });
    }
    if (done < count)
      emitTile(b.add(first, done), panels, count - done);
  }
}

/// Computes rows `first` to `first` + `count` for panels `begin` to `end`.
void PackedGemm::emitPanels(Value first, int64_t count, Value begin,
                            Value end) {
  // A tile has all columns of a panel if the sums of these columns fit in
  // registers for all rows; otherwise fewer columns. The packed words of the
  // weight, the values unpacked from them and the elements of A need registers,
  // too.
  vectors = panelVectors;
  if (sumsOfRow() * count > sumVectors)
    vectors = std::max<int64_t>(2 / numWeights(), 1);
  // With few rows there are registers for the sums of several streams of memory
  // (panels that are read at the same time). Sums of different streams are
  // independent, which hides the latency of additions.
  int64_t streams = 1, perStream = sumsOfRow() * chunkOf(count);
  while (streams * numWeights() < mostStreams &&
         streams * 2 * perStream <= sumVectors * 2 / 3)
    streams *= 2;
  forPanels(b, begin, end, streams,
            [&](ArrayRef<Value> panels) { emitRows(first, count, panels); });
}

/// Computes units of work `begin` to `end` for rows `first` to `first` +
/// `count` (all ends exclusive). The units of all products in `parts` are
/// numbered consecutively.
void PackedGemm::emitUnits(Value first, int64_t count, Value begin, Value end) {
  int64_t before = 0;
  for (const FusedProducts &each : parts) {
    part = &each;
    auto panelAt = [&](Value unit) -> Value {
      if (parts.size() > 1) {
        unit = b.create<arith::MaxSIOp>(b.sub(unit, b.constant(before)),
                                        b.constant(0));
        unit = b.min(unit, b.constant(unitsOf(each)));
      }
      return spec.panelsTogether > 1 ? b.min(b.mul(unit, spec.panelsTogether),
                                             b.constant(panelsOf(each)))
                                     : unit;
    };
    Value firstPanel = panelAt(begin), lastPanel = panelAt(end);
    if (usesAmx)
      amx.emit(each, first, count, firstPanel, lastPanel);
    else
      emitPanels(first, count, firstPanel, lastPanel);
    if (each.finish)
      each.finish(first, b.constant(count), b.mul(firstPanel, panelWidth),
                  b.min(b.mul(lastPanel, panelWidth), b.constant(each.n)));
    before += unitsOf(each);
  }
}

/// Threads take sets of units (`spec.panelsTogether` panels of B each)
/// dynamically. Returns the smallest number of units in a set. A set must have
/// enough bytes (see `leastBytes`), and as many panels as a thread reads at the
/// same time (see `mostStreams`).
int64_t PackedGemm::leastUnits() const {
  int64_t panels = 0, bytes = 0, columns = 1;
  for (const FusedProducts &each : parts) {
    auto weights = static_cast<int64_t>(each.weights.size());
    columns = std::max(columns, weights);
    panels += panelsOf(each);
    bytes += panelsOf(each) * weights * unpacker.count() * panelRowBytes;
  }
  int64_t worth =
      leastBytes / std::clamp(spec.m / fewRows, int64_t(1), mostTimes);
  int64_t least = std::max<int64_t>(mostStreams / columns,
                                    llvm::divideCeil(worth, bytes / panels));
  if (usesAmx)
    least = std::max(least, amx.leastPanels());
  return llvm::divideCeil(least, spec.panelsTogether);
}

void PackedGemm::emit(const LaunchThread &self) {
  int64_t units = 0;
  for (const FusedProducts &each : parts)
    units += unitsOf(each);
  WorkShares shares(b, self, units, leastUnits());
  int64_t blockRows = scratch.blockRows;
  int64_t whole = spec.m / blockRows;
  auto emitBlock = [&](Value block, int64_t count, Value held) {
    Value first = b.mul(block, blockRows);
    prepare(first, b.constant(count));
    return shares.emitRound(block, held, [&](Value begin, Value end) {
      emitUnits(first, count, begin, end);
    });
  };
  if (usesAmx)
    amx.configure();
  Value held = shares.none();
  if (whole > 0)
    held = b.forLoop(b.constant(0), b.constant(whole), 1, {held},
                     [&](Value block, ValueRange carried) -> Values {
                       return {emitBlock(block, blockRows, carried[0])};
                     })[0];
  if (int64_t rest = spec.m % blockRows)
    emitBlock(b.constant(whole), rest, held);
  if (usesAmx)
    amx.release();
}

//===----------------------------------------------------------------------===//
// The micro-kernel
//===----------------------------------------------------------------------===//

/// Multiplies one packed word of every column of the tile by the activations of
/// each row, and adds the products to `sums`. `word` is the index of the packed
/// word along K. `sources` has the addresses of the panels.
PackedGemm::Values PackedGemm::multiplyWord(ArrayRef<Value> sources, Value row,
                                            Value word, int64_t rows,
                                            ValueRange sums) {
  Values next(sums);
  auto type = VectorType::get(lanes, b.builder.getI32Type());
  SmallVector<Value> prepared; // The prepared words of all streams' vectors.
  int64_t ahead = fetchAhead / static_cast<int64_t>(sources.size());
  int64_t vectorBytes = lanes * wordBytes;
  for (Value source : sources) {
    Value at = bytes(source, b.mul(word, panelRowBytes));
    int64_t end = firstVector + vectors;
    for (int64_t line = firstVector * vectorBytes; line < end * vectorBytes;
         line += 64)
      b.prefetch(bytes(at, ahead + line));
    for (int64_t v = firstVector; v < end; ++v)
      prepared.push_back(
          unpacker.prepare(b.load(type, b.advance(at, type, v), 4)));
  }
  bool isWord = unpacker.dot || unpacker.isInteger;
  Type one =
      isWord ? Type(b.builder.getI32Type()) : Type(b.builder.getF32Type());
  auto multiplyRow = [&](ArrayRef<Value> factors, int64_t step, int64_t i,
                         int64_t digit) {
    Value at =
        bytes(row, i * scratch.rowBytes + digit * activations.layout.digitsAt);
    Value index = b.add(b.mul(word, unpacker.steps()), step);
    Value x = b.create<vector::BroadcastOp>(
        VectorType::get(lanes, one),
        b.load(one, b.advance(at, one, index), isWord ? 2 : 4));
    auto numFactors = static_cast<int64_t>(factors.size());
    for (int64_t f = 0; f < numFactors; ++f) {
      Value &sum = next[(digit * numFactors + f) * rows + i];
      sum = unpacker.multiplyAdd(x, factors[f], sum);
    }
  };
  for (int64_t step = 0; step < unpacker.steps(); ++step) {
    SmallVector<Value> factors;
    for (Value vector : prepared)
      factors.push_back(unpacker.factor(vector, step));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t digit = 0; digit < unpacker.digits; ++digit)
        multiplyRow(factors, step, i, digit);
  }
  return next;
}

/// Adds the products over the `count` packed words from `begin` on to `sums`,
/// and returns the new sums.
PackedGemm::Values PackedGemm::sumWords(ArrayRef<Value> sources, Value row,
                                        Value begin, int64_t count,
                                        int64_t rows, ValueRange sums) {
  return b.forLoop(begin, b.add(begin, count), 1, sums,
                   [&](Value word, ValueRange carried) {
                     return multiplyWord(sources, row, word, rows, carried);
                   });
}

/// Adds the products over a block of integer activations to `sums`, which are
/// f32, and returns the new sums. The block's first packed word is `begin`, and
/// it has `length` elements.
PackedGemm::Values PackedGemm::sumBlock(ArrayRef<Value> sources, Value row,
                                        Value block, Value begin,
                                        int64_t length, int64_t rows,
                                        ValueRange sums) {
  auto ownRow = [&](size_t sum) {
    return bytes(row, static_cast<int64_t>(sum) % rows * scratch.rowBytes);
  };
  Values whole, next;
  for (int64_t i = 0; i < rows; ++i)
    whole.push_back(
        activations.beginOfSums(activations.beginAt(ownRow(i), block)));
  while (whole.size() < sums.size())
    whole.push_back(whole[whole.size() - rows]);
  // The initial value of a block's sums undoes the offset that makes codes
  // unsigned. If activations are split into two digits, the final sum adds the
  // sums of both digits. So only the sums of the low digits begin with the
  // value, and those of the high digits with 0.
  whole.resize(sums.size() * unpacker.digits,
               b.zeros(VectorType::get(lanes, b.builder.getI32Type())));
  whole = sumWords(sources, row, begin,
                   llvm::divideCeil(length, unpacker.perWord), rows, whole);
  for (size_t at = 0; at < sums.size(); ++at) {
    Values digits;
    for (size_t digit = at; digit < whole.size(); digit += sums.size())
      digits.push_back(whole[digit]);
    next.push_back(activations.addBlock(activations.scaleAt(ownRow(at), block),
                                        digits, sums[at]));
  }
  return next;
}

/// The sums over group `group` of a quantized weight, before they are scaled.
PackedGemm::Values PackedGemm::sumGroup(ArrayRef<Value> sources, Value row,
                                        Value group, int64_t rows) {
  int64_t perGroup = llvm::divideCeil(unpacker.count(), spec.groups);
  Value begin = b.mul(group, perGroup);
  Values sums(sources.size() * vectors * rows, b.zeros(f32s));
  if (!unpacker.isInteger)
    return sumWords(sources, row, begin, perGroup, rows, sums);
  const IntegerActivations::Layout &layout = activations.layout;
  Value firstBlock = b.mul(group, layout.blocksOfGroup());
  auto add = [&](Value block, int64_t length, ValueRange sums) {
    int64_t perBlock = layout.blockLength / unpacker.perWord;
    return sumBlock(sources, row, b.add(firstBlock, block),
                    b.add(begin, b.mul(block, perBlock)), length, rows, sums);
  };
  int64_t others = layout.blocksOfGroup() - 1;
  if (others > 0)
    sums = b.forLoop(b.constant(0), b.constant(others), 1, sums,
                     [&](Value block, ValueRange carried) {
                       return add(block, layout.blockLength, carried);
                     });
  return add(b.constant(others), layout.lastLength(), sums);
}

/// Dequantizes the sums of a group and adds them to the totals: totals + scale
/// * (sums - zero * s), where s is the sum of the elements of A in the group.
PackedGemm::Values PackedGemm::scaleGroup(ValueRange sums, ValueRange totals,
                                          ArrayRef<Value> panels,
                                          Value firstRow, Value group,
                                          int64_t rows) {
  Values next;
  for (Value panel : panels)
    for (const PackedWeight &weight : part->weights)
      for (int64_t v = firstVector; v < firstVector + vectors; ++v) {
        PackedSums::Scale scale = this->sums.scaleOf(weight, panel, group, v);
        for (int64_t i = 0; i < rows; ++i)
          next.push_back(this->sums.scaled(scale, sums[next.size()],
                                           b.add(firstRow, i), group,
                                           totals[next.size()]));
      }
  return next;
}

/// The micro-kernel: computes a tile, which has `rows` rows from `firstRow` on
/// and, in each of `panels`, `vectors` vectors of columns from `firstVector`
/// on.
void PackedGemm::emitTile(Value firstRow, ArrayRef<Value> panels,
                          int64_t rows) {
  SmallVector<Value> sources;
  for (Value panel : panels)
    for (const PackedWeight &weight : part->weights)
      sources.push_back(bytes(weight.packedWords,
                              b.mul(panel, unpacker.count() * panelRowBytes)));
  // Scratch memory holds one block of rows of A in the form that is multiplied.
  // This is the index of the tile's first row in the block.
  Value local = b.rem(firstRow, scratch.blockRows);
  Value row = sums.row(local);
  Values totals(sources.size() * vectors * rows, b.zeros(f32s));
  if (spec.groups == 0) {
    storeTile(
        sumWords(sources, row, b.constant(0), unpacker.count(), rows, totals),
        firstRow, panels, rows);
    return;
  }
  totals = b.forLoop(b.constant(0), b.constant(spec.groups), 1, totals,
                     [&](Value group, ValueRange carried) {
                       return scaleGroup(sumGroup(sources, row, group, rows),
                                         carried, panels, local, group, rows);
                     });
  storeTile(totals, firstRow, panels, rows);
}

void PackedGemm::storeTile(ValueRange sums, Value firstRow,
                           ArrayRef<Value> panels, int64_t rows) {
  auto store = [&](int64_t panel, int64_t v, int64_t i, Value column) {
    Values ofRow;
    for (int64_t w = 0; w < numWeights(); ++w)
      ofRow.push_back(
          sums[((panel * numWeights() + w) * vectors + v) * rows + i]);
    this->sums.store(*part, ofRow, b.add(firstRow, i), column);
  };
  for (auto [index, panel] : llvm::enumerate(panels))
    for (int64_t v = 0; v < vectors; ++v) {
      Value column = b.add(b.mul(panel, panelWidth), (firstVector + v) * lanes);
      for (int64_t i = 0; i < rows; ++i)
        store(static_cast<int64_t>(index), v, i, column);
    }
}

int64_t packedGemmScratchBytes(const PackedGemmSpec &spec,
                               const CpuTarget &target) {
  return PackedScratch(spec, target).bytes;
}

void emitPackedGemm(LoopBuilder &builder, const PackedGemmSpec &spec,
                    const CpuTarget &target, PackedRowFn rowOf, Value scratch,
                    ArrayRef<FusedProducts> parts, const LaunchThread &self) {
  PackedGemm(builder, spec, target, std::move(rowOf), scratch, parts)
      .emit(self);
}

} // namespace heddle::cpu
