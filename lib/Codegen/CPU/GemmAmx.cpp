//===- GemmAmx.cpp - Matrix products on AMX tiles --------------------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The AMX micro-kernel. It multiplies 32 rows of A by 32 columns of B. Its
// registers hold 2 x 2 tiles of sums, two tiles of A and two of B. One step
// takes 32 values of K, which are bf16 or fp16. B is packed as for the
// instruction vdpbf16ps, a dot product of pairs along K. A is either packed or
// read where it is, without a copy. Packed A has 32 rows of 64 bytes for each
// step, and the steps are adjacent in memory.
//
//===----------------------------------------------------------------------===//

#include "AmxTiles.h"
#include "GemmEmitter.h"
#include "PairUnit.h"

using namespace mlir;

namespace heddle::cpu {

/// One step multiplies `stepK` values of each row of A. They are
/// `stepWords` 32-bit words, each a pair of values.
static constexpr int64_t stepK = 32, stepWords = 16;
/// The bytes of packed A in one step.
static constexpr int64_t stepBytesA = 32 * AmxTiles::rowBytes;

MicroPanel GemmEmitter::amxPanelA(Value rowBlock, KRange k, Value buffer) {
  if (!operandA.direct)
    return {buffer, stepBytesA, AmxTiles::rowBytes};
  return {sourceOf(operandA, firstRow(rowBlock), k), stepK * 2,
          operandA.stride * 2};
}

void GemmEmitter::emitAmxKernel(MicroPanel panelA, MicroPanel panelB,
                                Value kLength, const Prefetch &prefetch,
                                Value tile) {
  enum { sums = 0, left = 4, right = 6 };
  constexpr int64_t tileRows = AmxTiles::rows, half = AmxTiles::rowBytes;
  Type i8 = b.builder.getI8Type();
  AmxTiles tiles(b, emulatesAmx);
  AmxTiles::Kind kind = pairsOf(operandA.type);
  int64_t tileStride = blocking.nr * 4;
  auto sumPointer = [&](int i) {
    return b.advance(tile, i8,
                     (i / 2) * tileRows * tileStride + (i % 2) * half);
  };
  for (int i = 0; i < 4; ++i) {
    if (loadsSums())
      tiles.load(sums + i, sumPointer(i), tileStride);
    else
      tiles.zero(sums + i);
  }
  Value steps = b.div(words(kLength), stepWords);
  Value linesPerStep = b.add(b.div(prefetch.steps, steps), 1);
  b.forLoop(b.constant(0), steps, 1, [&](Value step) {
    Value firstLine = b.add(prefetch.firstStep, b.mul(step, linesPerStep));
    b.forLoop(b.constant(0), linesPerStep, 1, [&](Value line) {
      prefetchStep(streamOperand(), prefetch.source, b.add(firstLine, line));
    });
    Value fromA = b.advance(panelA.pointer, i8, b.mul(step, panelA.wordStride));
    Value fromB = b.advance(panelB.pointer, i8,
                            b.mul(step, panelB.wordStride * stepWords));
    tiles.load(left, fromA, panelA.outerStride);
    tiles.load(right, fromB, panelB.wordStride);
    tiles.multiplyAdd(sums, left, right, kind);
    tiles.load(right + 1, b.advance(fromB, i8, half), panelB.wordStride);
    tiles.multiplyAdd(sums + 1, left, right + 1, kind);
    tiles.load(left + 1, b.advance(fromA, i8, tileRows * panelA.outerStride),
               panelA.outerStride);
    tiles.multiplyAdd(sums + 2, left + 1, right, kind);
    tiles.multiplyAdd(sums + 3, left + 1, right + 1, kind);
  });
  for (int i = 0; i < 4; ++i)
    tiles.store(sums + i, sumPointer(i), tileStride);
}

/// Packs a row block of A by copying rows. A is stored as [M, K].
void GemmEmitter::packAmxRows(Value firstRow, KRange k, Value to) {
  Type i8 = b.builder.getI8Type(), element = operandA.type;
  auto rowType = VectorType::get(stepK, element);
  bool masked = spec.k % stepK != 0;
  Value source = b.advance(operandA.pointer, element, k.begin);
  b.forLoop(b.constant(0), b.constant(operandA.width), 1, [&](Value row) {
    Value index = b.min(b.add(firstRow, row), b.constant(operandA.outer - 1));
    Value from = b.advance(source, element, b.mul(index, operandA.stride));
    Value target = b.advance(to, i8, b.mul(row, AmxTiles::rowBytes));
    b.forLoop(b.constant(0), k.length, stepK, [&](Value at) {
      Value mask = masked ? b.mask(b.sub(k.length, at), stepK) : Value();
      Value value = b.load(rowType, b.advance(from, element, at), 2, mask);
      b.store(value, b.advance(target, i8, b.mul(at, stepBytesA / stepK)), 64);
    });
  });
}

/// Packs a row block of A by transposing squares of 16 words. A is stored as
/// [K, M].
void GemmEmitter::packAmxColumns(Value firstRow, KRange k, Value to) {
  Type i8 = b.builder.getI8Type(), element = operandA.type;
  int64_t lanes = blocking.lanes;
  auto rowType = VectorType::get(lanes, element);
  bool masked = spec.k % stepK != 0;
  Value source = sourceOf(operandA, firstRow, k);
  Value left = b.sub(b.constant(operandA.outer), firstRow);
  b.forLoop(b.constant(0), k.length, stepK, [&](Value at) {
    Value stepTo = b.advance(to, i8, b.mul(at, stepBytesA / stepK));
    b.forLoop(b.constant(0), b.constant(operandA.width), lanes, [&](Value i) {
      Value inside = b.mask(b.sub(left, i), lanes);
      auto loadRow = [&](int64_t row) {
        Value rowAt = b.add(at, row);
        Value mask =
            masked ? b.both(inside, b.less(rowAt, k.length), lanes) : inside;
        Value offset = b.add(b.mul(rowAt, operandA.stride), i);
        return b.load(rowType, b.advance(source, element, offset), 2, mask);
      };
      SmallVector<Value> pairs;
      for (int64_t row = 0; row < stepK; row += 2) {
        Value above = loadRow(row), below = loadRow(row + 1);
        pairs.push_back(
            b.create<LLVM::BitcastOp>(vectorType, b.interleave(above, below)));
      }
      Value target = b.advance(stepTo, i8, b.mul(i, AmxTiles::rowBytes));
      for (auto [row, value] : llvm::enumerate(transpose(std::move(pairs))))
        b.store(value,
                b.advance(target, i8,
                          static_cast<int64_t>(row) * AmxTiles::rowBytes),
                64);
    });
  });
}

} // namespace heddle::cpu
