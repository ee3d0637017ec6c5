//===- GemmKernel.cpp - The micro-kernel of products ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the micro-kernel, which computes one tile of a product in vector
// registers.
//
//===----------------------------------------------------------------------===//

#include "GemmEmitter.h"
#include "PairUnit.h"

using namespace mlir;

namespace heddle::cpu {

/// Adds the product of two micro-panels to a tile of f32 sums.
void GemmEmitter::emitTile(Value rowBlock, Value panel, MicroPanel panelA,
                           MicroPanel panelB, Value kLength,
                           const Prefetch &prefetch, Value tile,
                           Value isFirstK) {
  if (blocking.kBlocks > 1)
    b.ifThen(isFirstK, [&] { beginTile(rowBlock, panel, tile); });
  else if (init)
    beginTile(rowBlock, panel, tile);
  if (blocking.amx) {
    emitAmxKernel(panelA, panelB, kLength, prefetch, tile);
    return;
  }
  auto kernel = [&](int64_t rows) {
    emitMicroKernel(rows, panelA, panelB, kLength, prefetch, tile);
  };
  if (blocking.rowExtra == 0) {
    kernel(blocking.rowBase);
    return;
  }
  b.ifThen(
      b.less(rowBlock, b.constant(blocking.rowExtra)),
      [&] { kernel(blocking.rowBase + 1); }, [&] { kernel(blocking.rowBase); });
}

/// Writes the initial sums to a tile.
void GemmEmitter::beginTile(Value rowBlock, Value panel, Value tile) {
  if (init) {
    forVectors(rowBlock, panel, tile,
               [&](Value sums, Value row, Value column, Value mask) {
                 b.store(init(b.builder, b.loc, b.toIndex(row),
                              b.toIndex(column), mask),
                         sums, 64);
               });
    return;
  }
  b.forLoop(b.constant(0), b.constant(blocking.mr * 2), 1, [&](Value i) {
    b.store(b.zeros(vectorType), b.advance(tile, vectorType, i), 64);
  });
}

/// Emits the loop over K for one tile, whose sums are in registers. Its first
/// steps also prefetch the lines of the micro-panel that will be packed next.
void GemmEmitter::emitMicroKernel(int64_t rows, MicroPanel panelA,
                                  MicroPanel panelB, Value kLength,
                                  const Prefetch &prefetch, Value tile) {
  LoopBuilder::Values sums;
  for (int64_t i = 0; i < rows * 2; ++i)
    sums.push_back(loadsSums()
                       ? b.load(vectorType, b.advance(tile, vectorType, i), 64)
                       : b.zeros(vectorType));
  Value all = words(kLength);
  Value fetching = b.min(all, prefetch.steps);
  sums = b.forLoop(b.constant(0), fetching, 1, sums,
                   [&](Value word, ValueRange carried) {
                     prefetchStep(streamOperand(), prefetch.source,
                                  b.add(prefetch.firstStep, word));
                     return multiplyStep(word, panelA, panelB, carried);
                   });
  sums = b.forLoop(fetching, all, 1, sums, [&](Value word, ValueRange carried) {
    return multiplyStep(word, panelA, panelB, carried);
  });
  for (auto [i, sum] : llvm::enumerate(sums))
    b.store(sum, b.advance(tile, vectorType, static_cast<int64_t>(i)), 64);
}

/// Multiplies one word of every row of A by one word of every column of B, both
/// at index `word` along K, and adds the products to `sums`.
LoopBuilder::Values GemmEmitter::multiplyStep(Value word, MicroPanel panelA,
                                              MicroPanel panelB,
                                              ValueRange sums) {
  Type i8 = b.builder.getI8Type();
  Value left = b.advance(panelA.pointer, i8, b.mul(word, panelA.wordStride));
  Value right = b.advance(panelB.pointer, i8, b.mul(word, panelB.wordStride));
  SmallVector<Value, 2> columns;
  for (int64_t j = 0; j < 2; ++j)
    columns.push_back(b.load(vectorType, b.advance(right, vectorType, j), 64));
  return multiplyWord(left, panelA.outerStride, columns, sums);
}

/// For each row of the tile, multiplies a word of A by the vectors of words of
/// B in `columns`, and adds the products to `sums`. The word for the first row
/// is at `left`.
LoopBuilder::Values GemmEmitter::multiplyWord(Value left, int64_t outerStride,
                                              ArrayRef<Value> columns,
                                              ValueRange sums) {
  Type wordType = blocking.dot ? Type(b.builder.getI32Type())
                               : Type(b.builder.getF32Type());
  auto wordsType = VectorType::get(blocking.lanes, wordType);
  LoopBuilder::Values next;
  for (int64_t row = 0; next.size() < sums.size(); ++row) {
    Value one = b.load(
        wordType, b.advance(left, b.builder.getI8Type(), row * outerStride),
        dist::byteSize(spec.aType));
    Value word = b.create<vector::BroadcastOp>(wordsType, one);
    for (Value column : columns)
      next.push_back(multiplyAdd(word, column, sums[next.size()]));
  }
  return next;
}

Value GemmEmitter::multiplyAdd(Value left, Value right, Value sum) {
  if (!blocking.dot)
    return b.create<vector::FMAOp>(left, right, sum);
  return addPairProducts(b, spec.aType, left, right, sum);
}

/// Calls `body` for each vector of a tile that is at least partly inside C.
void GemmEmitter::forVectors(Value rowBlock, Value panel, Value tile,
                             VectorBody body) {
  int64_t lanes = blocking.lanes;
  Value rowBegin = firstRow(rowBlock);
  Value rowEnd = firstRow(b.add(rowBlock, 1));
  Value column = b.mul(panel, blocking.nr);
  SmallVector<Value, 2> masks(2);
  if (operandB.mayOverhang)
    for (int64_t j = 0; j < 2; ++j)
      masks[j] = b.mask(b.sub(b.constant(spec.n - j * lanes), column), lanes);
  b.forLoop(b.constant(0), b.sub(rowEnd, rowBegin), 1, [&](Value i) {
    Value sums = b.advance(tile, vectorType, b.mul(i, 2));
    for (int64_t j = 0; j < 2; ++j)
      body(b.advance(sums, vectorType, j), b.add(rowBegin, i),
           b.add(column, j * lanes), masks[j]);
  });
}

/// Writes a finished tile to C through the epilogue.
void GemmEmitter::emitStore(Value rowBlock, Value panel, Value tile) {
  forVectors(rowBlock, panel, tile,
             [&](Value sums, Value row, Value column, Value mask) {
               storeVector(b.load(vectorType, sums, 64), row, column, mask);
             });
}

void GemmEmitter::storeVector(Value sum, Value row, Value column, Value mask) {
  auto storedType = VectorType::get(blocking.lanes, spec.cType);
  unsigned alignment = dist::byteSize(spec.cType);
  Value target = b.advance(c, spec.cType, b.add(b.mul(row, ldc), column));
  if (spec.accumulate) {
    Value before = b.load(storedType, target, alignment, mask);
    sum = b.create<arith::AddFOp>(sum, b.widen(before));
  }
  if (epilogue)
    sum = epilogue(b.builder, b.loc, sum, b.toIndex(row), b.toIndex(column),
                   mask);
  b.store(b.narrow(sum, spec.cType), target, alignment, mask);
}

} // namespace heddle::cpu
