//===- GemmFewRows.cpp - Matrix products of few rows ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits products with few rows of A. Each element of B is used for few rows, so
// packing B would take most of the time. Instead the code forms in registers
// the same words as in a packed panel: it interleaves two rows of B or
// transposes squares. The sum over K has the same order as with packed panels,
// so the results have the same bits.
//
//===----------------------------------------------------------------------===//

#include "GemmEmitter.h"

using namespace mlir;

namespace heddle::cpu {

static constexpr int64_t lineBytes = 64;
/// The prefetch distance, in rows, for a B that is stored [K, N].
static constexpr int64_t rowsAhead = 8;
/// For a B that is stored [N, K], the next rows (as many as a vector has lanes)
/// are prefetched if they have at most `mostBytesAhead` bytes, so that the
/// second-level cache holds them. Otherwise the prefetch distance is
/// `bytesAhead` bytes in the same row.
static constexpr int64_t mostBytesAhead = 1 << 17, bytesAhead = 1 << 10;

/// Computes all rows of C in the columns of `panels`.
void GemmEmitter::emitFewRows(Range panels) {
  Value zero = b.constant(0);
  MicroPanel panelA =
      loadPanel(operandA, zero, {zero, b.constant(spec.k)}, residentBuffer);
  // Only the last panel may reach beyond the columns of B, so only its loads
  // need masks.
  bool overhangs = operandB.mayOverhang;
  int64_t whole = spec.n / blocking.nr;
  Value at = panels.begin, end = b.min(panels.end, b.constant(whole));
  operandB.mayOverhang = false;
  for (int64_t count = whole ? blocking.panelsTogether : 0; count > 0;
       count /= 2) {
    Value next = b.add(at, b.mul(b.div(b.sub(end, at), count), count));
    b.forLoop(at, next, count,
              [&](Value panel) { emitPanels(panel, count, panelA); });
    at = next;
  }
  operandB.mayOverhang = overhangs;
  if (overhangs)
    b.ifThen(b.less(end, panels.end),
             [&] { emitPanels(b.constant(whole), 1, panelA); });
}

/// Copies the rows of A to scratch memory as 32-bit words along K, and fills
/// the last words with zeros after the end of K.
void GemmEmitter::copyRowsOfA(Value to) {
  int64_t step = blocking.lanes * blocking.perWord();
  int64_t whole = spec.k / step * step;
  auto type = VectorType::get(step, operandA.type);
  Type i8 = b.builder.getI8Type();
  b.forLoop(b.constant(0), b.constant(spec.m), 1, [&](Value row) {
    Value from =
        b.advance(operandA.pointer, operandA.type, b.mul(row, operandA.stride));
    Value target = b.advance(to, i8, b.mul(row, blocking.copiedRowBytes()));
    auto copy = [&](Value at, Value mask) {
      Value words = loadWords(type, b.advance(from, operandA.type, at), mask);
      b.store(words, b.advance(target, i8, b.mul(at, 4 / blocking.perWord())),
              4);
    };
    b.forLoop(b.constant(0), b.constant(whole), step,
              [&](Value at) { copy(at, nullptr); });
    if (whole < spec.k)
      copy(b.constant(whole), b.mask(b.constant(spec.k - whole), step));
  });
}

/// Computes all rows for `count` adjacent panels, each with its own tile of
/// sums.
void GemmEmitter::emitPanels(Value panel, int64_t count, MicroPanel panelA) {
  Type i8 = b.builder.getI8Type();
  Value rowBlock = b.constant(0);
  auto forTiles = [&](llvm::function_ref<void(Value, Value)> body) {
    b.forLoop(b.constant(0), b.constant(count), 1, [&](Value i) {
      body(b.add(panel, i), b.advance(tiles, i8, b.mul(i, blocking.tileBytes)));
    });
  };
  if (init)
    forTiles([&](Value own, Value tile) { beginTile(rowBlock, own, tile); });
  // Load the sums in the order that the functions below expect: by row, and
  // within a row by panel.
  SmallVector<Value> places;
  LoopBuilder::Values sums;
  for (int64_t row = 0; row < spec.m; ++row)
    for (int64_t vector = 0; vector < 2 * count; ++vector) {
      Value tile = b.advance(tiles, i8, vector / 2 * blocking.tileBytes);
      places.push_back(b.advance(tile, vectorType, 2 * row + vector % 2));
      sums.push_back(loadsSums() ? b.load(vectorType, places.back(), 64)
                                 : b.zeros(vectorType));
    }
  sums = spec.transB ? sumColumnsOfB(panel, panelA, std::move(sums))
                     : sumRowsOfB(panel, count, panelA, std::move(sums));
  for (auto [sum, place] : llvm::zip(sums, places))
    b.store(sum, place, 64);
  forTiles([&](Value own, Value tile) { emitStore(rowBlock, own, tile); });
}

/// Loads the words at one index along K for some panels of B. With f32 it loads
/// one stored row. With pairs of bf16 it loads two stored rows and interleaves
/// them within 128-bit quarters. The first vector of a panel then has the lower
/// half of each quarter, the second vector the upper half.
SmallVector<Value> GemmEmitter::loadRowsOfB(Value from, bool hasSecond,
                                            ArrayRef<Value> masks) {
  int64_t width = blocking.lanes * blocking.perWord();
  SmallVector<Value> words;
  for (auto [index, mask] : llvm::enumerate(masks)) {
    Value at =
        b.advance(from, operandB.type, static_cast<int64_t>(index) * width);
    if (!blocking.dot) {
      words.push_back(
          loadWords(VectorType::get(width, operandB.type), at, mask));
      continue;
    }
    // Shuffle as i16, because LLVM has efficient shuffles for integers only.
    auto type = VectorType::get(width, b.builder.getI16Type());
    Value above = b.load(type, at, 2, mask);
    Value below =
        hasSecond ? b.load(type, b.advance(at, operandB.type, operandB.stride),
                           2, mask)
                  : b.zeros(type);
    for (int64_t half = 0; half < 2; ++half) {
      SmallVector<int64_t> order;
      for (int64_t lane = 0; lane < width; ++lane)
        if (lane / 4 % 2 == half)
          order.append({lane, lane + width});
      words.push_back(b.create<LLVM::BitcastOp>(
          vectorType, b.shuffle(above, below, order)));
    }
  }
  return words;
}

/// Adds the products of A and some panels of B to `sums`. B is stored [K, N].
LoopBuilder::Values GemmEmitter::sumRowsOfB(Value panel, int64_t count,
                                            MicroPanel panelA,
                                            LoopBuilder::Values sums) {
  Type type = operandB.type;
  Value zero = b.constant(0), column = firstOuter(operandB, panel);
  Value source = sourceOf(operandB, column, {zero, nullptr});
  // The number of columns that a load reads: one for each lane or, with pairs
  // of bf16, two.
  int64_t width = blocking.lanes * blocking.perWord();
  SmallVector<Value> masks(count * blocking.nr / width);
  if (operandB.mayOverhang)
    for (auto [index, mask] : llvm::enumerate(masks))
      mask =
          b.mask(b.sub(b.constant(spec.n - static_cast<int64_t>(index) * width),
                       column),
                 width);

  auto add = [&](Value word, bool hasSecond, ValueRange carried) {
    Value from = b.advance(source, type,
                           b.mul(word, blocking.perWord() * operandB.stride));
    int64_t bytes = count * blocking.nr * operandB.elementBytes();
    for (int64_t row = 0; row < blocking.perWord(); ++row)
      for (int64_t line = 0; line < bytes; line += lineBytes)
        b.prefetch(b.advance(
            b.advance(from, type, (row + rowsAhead) * operandB.stride),
            b.builder.getI8Type(), line));
    Value left = b.advance(panelA.pointer, b.builder.getI8Type(),
                           b.mul(word, panelA.wordStride));
    return multiplyWord(left, panelA.outerStride,
                        loadRowsOfB(from, hasSecond, masks), carried);
  };
  // With pairs of bf16, `loadRowsOfB` permutes the columns within the two
  // vectors of a panel. So permute the columns of the sums in the same way
  // before the loop, and back after the loop.
  auto shufflePairs = [&](ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
    for (size_t i = 0; blocking.dot && i < sums.size(); i += 2) {
      Value x = sums[i], y = sums[i + 1];
      sums[i] = shuffleQuarters(x, y, first);
      sums[i + 1] = shuffleQuarters(x, y, second);
    }
  };
  if (loadsSums())
    shufflePairs({0, 2, 4, 6}, {1, 3, 5, 7});
  int64_t whole = spec.k / blocking.perWord();
  sums = b.forLoop(zero, b.constant(whole), 1, sums,
                   [&](Value word, ValueRange carried) {
                     return add(word, /*hasSecond=*/true, carried);
                   });
  if (whole * blocking.perWord() < spec.k)
    sums = add(b.constant(whole), /*hasSecond=*/false, sums);
  shufflePairs({0, 4, 1, 5}, {2, 6, 3, 7});
  return sums;
}

/// Adds the products of A and a panel of B to `sums`. B is stored [N, K]. The
/// two vectors of columns of the sums are computed one after the other. The
/// reason: to transpose a square block of B (as many words of each column as a
/// vector has lanes) needs most registers.
LoopBuilder::Values GemmEmitter::sumColumnsOfB(Value panel, MicroPanel panelA,
                                               LoopBuilder::Values sums) {
  for (int64_t vector = 0; vector < 2; ++vector) {
    LoopBuilder::Values own;
    for (int64_t row = 0; row < spec.m; ++row)
      own.push_back(sums[2 * row + vector]);
    own = sumColumnsOfVector(panel, vector, panelA, own);
    for (int64_t row = 0; row < spec.m; ++row)
      sums[2 * row + vector] = own[row];
  }
  return sums;
}

LoopBuilder::Values GemmEmitter::sumColumnsOfVector(Value panel, int64_t vector,
                                                    MicroPanel panelA,
                                                    ValueRange sums) {
  int64_t lanes = blocking.lanes, perWord = blocking.perWord();
  int64_t step = lanes * perWord, whole = spec.k / step * step;
  Type i8 = b.builder.getI8Type();
  auto type = VectorType::get(step, operandB.type);
  SmallVector<Value> sources =
      rowPointers(operandB, firstOuter(operandB, panel), b.constant(0),
                  vector * lanes, lanes);
  int64_t ahead = lanes * operandB.stride * operandB.elementBytes();
  if (ahead > mostBytesAhead)
    ahead = bytesAhead;
  auto add = [&](Value at, int64_t values, ValueRange carried) {
    for (Value source : sources)
      for (int64_t line = 0; line < step * operandB.elementBytes();
           line += lineBytes)
        b.prefetch(
            b.advance(b.advance(source, operandB.type, at), i8, ahead + line));
    Value mask = values < step ? b.mask(b.constant(values), step) : Value();
    Value left =
        b.advance(panelA.pointer, i8, b.mul(at, panelA.wordStride / perWord));
    LoopBuilder::Values next(carried);
    SmallVector<Value> words = loadSquare(type, sources, at, mask);
    for (int64_t word = 0; word * perWord < values; ++word)
      next = multiplyWord(b.advance(left, i8, word * panelA.wordStride),
                          panelA.outerStride, words[word], next);
    return next;
  };
  LoopBuilder::Values next = b.forLoop(
      b.constant(0), b.constant(whole), step, sums,
      [&](Value at, ValueRange carried) { return add(at, step, carried); });
  if (whole < spec.k)
    next = add(b.constant(whole), spec.k - whole, next);
  return next;
}

} // namespace heddle::cpu
