//===- GemmPack.cpp - Packs the operands of a product ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs micro-panels: `width` rows of A or columns of B. A word is one f32, or
// two bf16 that are adjacent along K. A packed micro-panel holds first the
// first word of each row or column, then the second word of each, and so on.
// Padding after the end of K is zero. Padding after the last row or column is
// undefined, because its products are not stored to C.
//
//===----------------------------------------------------------------------===//

#include "GemmEmitter.h"

using namespace mlir;

namespace heddle::cpu {

/// The address of the first element of a micro-panel in the operand itself.
Value GemmEmitter::sourceOf(const GemmOperand &operand, Value outerBegin,
                            KRange k) {
  Value row = operand.kContiguous ? outerBegin : k.begin;
  Value column = operand.kContiguous ? k.begin : outerBegin;
  return b.advance(operand.pointer, operand.type,
                   b.add(b.mul(row, operand.stride), column));
}

/// Describes micro-panel `index` of an operand for the micro-kernel: packed in
/// `buffer` or, if micro-kernels read the operand directly, in the operand
/// itself.
MicroPanel GemmEmitter::packedAt(const GemmOperand &operand, Value index,
                                 KRange k, Value buffer) {
  if (blocking.amx && &operand == &operandA)
    return amxPanelA(index, k, buffer);
  if (!operand.direct && blocking.fewRows && operand.kContiguous)
    return {buffer, 4, blocking.copiedRowBytes()};
  if (!operand.direct)
    return {buffer, 4 * operand.width, 4};
  return {sourceOf(operand, firstOuter(operand, index), k), 4,
          operand.stride * operand.elementBytes()};
}

MicroPanel GemmEmitter::loadPanel(const GemmOperand &operand, Value index,
                                  KRange k, Value buffer) {
  if (!operand.direct)
    pack(operand, firstOuter(operand, index), k, buffer);
  return packedAt(operand, index, k, buffer);
}

static constexpr int64_t lineBytes = 64;

/// The number of calls of `prefetchStep` for a whole micro-panel.
Value GemmEmitter::prefetchSteps(const GemmOperand &operand, Value kLength) {
  if (operand.kContiguous)
    return b.mul(b.ceilDiv(kLength, lineBytes / operand.elementBytes()),
                 operand.width);
  return b.mul(kLength, llvm::divideCeil(operand.width * operand.elementBytes(),
                                         lineBytes));
}

/// Prefetches cache line number `step` of the micro-panel at `source`.
void GemmEmitter::prefetchStep(const GemmOperand &operand, Value source,
                               Value step) {
  int64_t rowBytes = operand.stride * operand.elementBytes();
  int64_t lines =
      llvm::divideCeil(operand.width * operand.elementBytes(), lineBytes);
  Value row, line;
  if (operand.kContiguous) {
    row = b.rem(step, operand.width);
    line = b.div(step, operand.width);
  } else {
    row = b.div(step, lines);
    line = b.rem(step, lines);
  }
  b.prefetch(b.advance(source, b.builder.getI8Type(),
                       b.add(b.mul(row, rowBytes), b.mul(line, lineBytes))));
}

void GemmEmitter::pack(const GemmOperand &operand, Value outerBegin, KRange k,
                       Value to) {
  if (blocking.amx && &operand == &operandA) {
    if (operand.kContiguous)
      packAmxRows(outerBegin, k, to);
    else
      packAmxColumns(outerBegin, k, to);
    return;
  }
  if (blocking.fewRows && operand.kContiguous) {
    copyRowsOfA(to);
    return;
  }
  if (operand.kContiguous)
    packTransposed(operand, outerBegin, k, to);
  else
    packRowsOfK(operand, outerBegin, k, to);
}

/// Loads a vector of `type`, with bf16 or f32 elements. Returns it as loaded if
/// pairs of bf16 are multiplied, otherwise widened to f32.
Value GemmEmitter::loadWords(Type type, Value pointer, Value mask) {
  auto vector = cast<VectorType>(type);
  unsigned alignment = dist::byteSize(vector.getElementType());
  Value loaded = b.load(type, pointer, alignment, mask);
  if (blocking.dot || vector.getElementType().isF32())
    return loaded;
  return b.create<arith::ExtFOp>(vectorType, loaded);
}

/// Packs an operand that is stored as [K, M] (A) or [K, N] (B). Copies the rows
/// or, for pairs of bf16, interleaves two rows.
void GemmEmitter::packRowsOfK(const GemmOperand &operand, Value outerBegin,
                              KRange k, Value to) {
  int64_t lanes = blocking.lanes;
  bool pairs = blocking.dot;
  auto rowType = VectorType::get(lanes, operand.type);
  Type f32 = b.builder.getF32Type();
  Value left = b.sub(b.constant(operand.outer), outerBegin);
  SmallVector<Value> masks;
  for (int64_t at = 0; at < operand.width; at += lanes) {
    bool full = !operand.mayOverhang && at + lanes <= operand.width;
    Value count = b.min(b.add(left, -at), b.constant(operand.width - at));
    masks.push_back(full ? Value() : b.mask(count, lanes));
  }
  Value source = sourceOf(operand, outerBegin, k);

  // The last packed word may pair the last row along K with a row after the end
  // of K, which must then be zero.
  bool tail = pairs && spec.k % (2 * blocking.wordStep) != 0;
  b.forLoop(b.constant(0), words(k.length), 1, [&](Value word) {
    Value row = b.mul(word, blocking.perWord());
    Value from = b.advance(source, operand.type, b.mul(row, operand.stride));
    Value target = b.advance(to, f32, b.mul(word, operand.width));
    for (auto [group, mask] : llvm::enumerate(masks)) {
      int64_t at = static_cast<int64_t>(group) * lanes;
      auto loadRow = [&](int64_t below, Value insideMask) {
        Value pointer =
            b.advance(from, operand.type, below * operand.stride + at);
        if (tail)
          insideMask =
              b.both(insideMask, b.less(b.add(row, below), k.length), lanes);
        return loadWords(rowType, pointer, insideMask);
      };
      Value value = loadRow(0, mask);
      if (pairs)
        value = b.interleave(value, loadRow(1, mask));
      b.store(value, b.advance(target, f32, at), 4);
    }
  });
}

/// The addresses of element `kBegin` in each of `count` stored rows, from
/// `outerBegin` + `first` on. Rows after the end of the operand are replaced by
/// its last row, so that loads stay inside.
SmallVector<Value> GemmEmitter::rowPointers(const GemmOperand &operand,
                                            Value outerBegin, Value kBegin,
                                            int64_t first, int64_t count) {
  SmallVector<Value> pointers;
  Value base = b.advance(operand.pointer, operand.type, kBegin);
  auto rowAt = [&](Value pointer, Value index) {
    return b.advance(pointer, operand.type, b.mul(index, operand.stride));
  };
  if (!operand.mayOverhang)
    base = rowAt(base, outerBegin);
  for (int64_t row = first; row < first + count; ++row)
    pointers.push_back(operand.mayOverhang
                           ? rowAt(base, b.min(b.add(outerBegin, row),
                                               b.constant(operand.outer - 1)))
                           : rowAt(base, b.constant(row)));
  return pointers;
}

/// Packs an operand that is stored as [M, K] (A) or [N, K] (B), by transposing
/// squares of `lanes` words.
void GemmEmitter::packTransposed(const GemmOperand &operand, Value outerBegin,
                                 KRange k, Value to) {
  int64_t lanes = blocking.lanes;
  int64_t perSquare = lanes * blocking.perWord();
  Type f32 = b.builder.getF32Type();
  auto rowType = VectorType::get(perSquare, operand.type);
  bool masked = spec.k % perSquare != 0;
  for (int64_t first = 0; first < operand.width; first += lanes) {
    int64_t count = std::min(lanes, operand.width - first);
    SmallVector<Value> sources =
        rowPointers(operand, outerBegin, k.begin, first, count);
    b.forLoop(b.constant(0), words(k.length), lanes, [&](Value word) {
      Value at = b.mul(word, blocking.perWord());
      Value mask;
      if (masked)
        mask = b.mask(b.sub(k.length, at), perSquare);
      Value target =
          b.advance(to, f32, b.add(b.mul(word, operand.width), first));
      for (auto [column, value] :
           llvm::enumerate(loadSquare(rowType, sources, at, mask)))
        b.store(value,
                b.advance(target, f32,
                          static_cast<int64_t>(column) * operand.width),
                4);
    });
  }
}

/// Loads `lanes` words of each of the rows at `sources`, from element `at` on,
/// and transposes them: vector `i` of the result holds word `i` of each row.
/// `type` is the vector type of all elements that are loaded from one row.
SmallVector<Value> GemmEmitter::loadSquare(Type type, ArrayRef<Value> sources,
                                           Value at, Value mask) {
  Type element = getElementTypeOrSelf(type);
  SmallVector<Value> rows;
  for (Value source : sources) {
    Value loaded = loadWords(type, b.advance(source, element, at), mask);
    if (blocking.dot)
      loaded = b.create<LLVM::BitcastOp>(vectorType, loaded);
    rows.push_back(loaded);
  }
  rows.resize(blocking.lanes, b.zeros(vectorType));
  return transpose(std::move(rows));
}

/// A vector made of 128-bit quarters (four lanes each) of x and y. `pick` lists
/// the indices of these quarters. The quarters of x are numbered first, then
/// those of y.
Value GemmEmitter::shuffleQuarters(Value x, Value y, ArrayRef<int64_t> pick) {
  SmallVector<int64_t> order;
  for (int64_t quarter : pick)
    for (int64_t lane = 0; lane < 4; ++lane)
      order.push_back(4 * quarter + lane);
  return b.shuffle(x, y, order);
}

/// Transposes a square of `lanes` vectors. First transposes 4x4 blocks inside
/// the 128-bit quarters (four lanes) of the vectors, then moves whole quarters.
/// Every shuffle is one instruction.
SmallVector<Value> GemmEmitter::transpose(SmallVector<Value> rows) {
  int64_t lanes = blocking.lanes, quarters = lanes / 4;
  // Shuffles each quarter of x with the same quarter of y, all quarters in the
  // same way. `pick` lists lanes: 0 to 3 are the lanes of the quarter of x, 4
  // to 7 those of the quarter of y.
  auto inQuarters = [&](Value x, Value y, ArrayRef<int64_t> pick) {
    SmallVector<int64_t> order;
    for (int64_t quarter = 0; quarter < quarters; ++quarter)
      for (int64_t lane : pick)
        order.push_back(lane < 4 ? 4 * quarter + lane
                                 : lanes + 4 * quarter + lane - 4);
    return b.shuffle(x, y, order);
  };

  // The first half of the transposition. For g in 0, 4, 8, ... and c in 0 to 3,
  // the four lanes of quarter q of blocks[g + c] become the elements of the
  // rows g to g + 3 in column 4 * q + c.
  SmallVector<Value> blocks(lanes);
  for (int64_t g = 0; g < lanes; g += 4) {
    Value low0 = inQuarters(rows[g], rows[g + 1], {0, 4, 1, 5});
    Value high0 = inQuarters(rows[g], rows[g + 1], {2, 6, 3, 7});
    Value low1 = inQuarters(rows[g + 2], rows[g + 3], {0, 4, 1, 5});
    Value high1 = inQuarters(rows[g + 2], rows[g + 3], {2, 6, 3, 7});
    blocks[g] = inQuarters(low0, low1, {0, 1, 4, 5});
    blocks[g + 1] = inQuarters(low0, low1, {2, 3, 6, 7});
    blocks[g + 2] = inQuarters(high0, high1, {0, 1, 4, 5});
    blocks[g + 3] = inQuarters(high0, high1, {2, 3, 6, 7});
  }
  SmallVector<Value> columns(lanes);
  for (int64_t c = 0; c < 4; ++c) {
    if (quarters == 2) {
      columns[c] = shuffleQuarters(blocks[c], blocks[4 + c], {0, 2});
      columns[4 + c] = shuffleQuarters(blocks[c], blocks[4 + c], {1, 3});
      continue;
    }
    Value top0 = shuffleQuarters(blocks[c], blocks[4 + c], {0, 1, 4, 5});
    Value top1 = shuffleQuarters(blocks[c], blocks[4 + c], {2, 3, 6, 7});
    Value low0 = shuffleQuarters(blocks[8 + c], blocks[12 + c], {0, 1, 4, 5});
    Value low1 = shuffleQuarters(blocks[8 + c], blocks[12 + c], {2, 3, 6, 7});
    columns[c] = shuffleQuarters(top0, low0, {0, 2, 4, 6});
    columns[4 + c] = shuffleQuarters(top0, low0, {1, 3, 5, 7});
    columns[8 + c] = shuffleQuarters(top1, low1, {0, 2, 4, 6});
    columns[12 + c] = shuffleQuarters(top1, low1, {1, 3, 5, 7});
  }
  return columns;
}

/// The number of packed words for `kLength` values along K. A word is one f32
/// or a pair of bf16. The number of pairs is rounded up to a multiple of
/// `wordStep`.
Value GemmEmitter::words(Value kLength) {
  if (!blocking.dot)
    return kLength;
  Value steps = b.ceilDiv(kLength, 2 * blocking.wordStep);
  return b.mul(steps, blocking.wordStep);
}

} // namespace heddle::cpu
