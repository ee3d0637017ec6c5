//===- AttentionRandom.cpp - Random numbers of attention's dropout --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws the random numbers of attention's dropout. They are equal to those that
// nn.dropout would draw for a tensor [B, H, T, T], by Philox4x32-10 (Salmon et
// al., SC11). Philox returns four words at a time, which belong to four
// adjacent keys. If several lanes of a warp need words from one such draw, only
// one lane computes it.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cmath>

using namespace mlir;

namespace heddle::gpu {

void AttentionMapper::prepareRandom(Value head) {
  OpBuilder &b = f.builder;
  codegen::IntBuilder i64(b, f.loc, b.getI64Type());
  Value rng = f.argumentBuffer(op.getRng());
  auto word = [&](int64_t index) -> Value {
    return b.create<memref::LoadOp>(f.loc, rng, f.constant(index));
  };
  constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  constexpr uint32_t rounds = 10;
  Value key0 = word(0), key1 = word(1);
  roundKeys.clear();
  for (uint32_t round = 0; round < rounds; ++round)
    roundKeys.emplace_back(i32.add(key0, static_cast<int32_t>(round * weyl0)),
                           i32.add(key1, static_cast<int32_t>(round * weyl1)));
  step = word(2);
  auto scalar = [&](Value argument) { return f.argumentScalar(argument); };
  stream = i32.add(
      i32.mul(i32.from(scalar(op.getLayer())), static_cast<int32_t>(weyl0)),
      spec.site);
  firstRandom = codegen::firstProbability(
      spec, visible, i64, scalar(op.getMicroBatch()),
      op.getPart() ? scalar(op.getPart()) : Value(), batch, head);
}

/// Draws the four random words of Philox's counter `block` (i64).
AttentionMapper::Values AttentionMapper::philox(Value block) {
  OpBuilder &b = f.builder;
  codegen::IntBuilder i64(b, f.loc, b.getI64Type());
  Value multiplier0 = i32.constant(static_cast<int32_t>(0xD2511F53));
  Value multiplier1 = i32.constant(static_cast<int32_t>(0xCD9E8D57));
  Value high = b.create<arith::ShRUIOp>(f.loc, block, i64.constant(32));
  Values counter = {i32.from(block), i32.from(high), step, stream};
  auto mix = [&](Value x, Value y, Value key) {
    Value both = b.create<arith::XOrIOp>(f.loc, x, y);
    return b.create<arith::XOrIOp>(f.loc, both, key).getResult();
  };
  for (auto [key0, key1] : roundKeys) {
    auto first =
        b.create<arith::MulUIExtendedOp>(f.loc, counter[0], multiplier0);
    auto second =
        b.create<arith::MulUIExtendedOp>(f.loc, counter[2], multiplier1);
    counter = {mix(second.getHigh(), counter[1], key0), second.getLow(),
               mix(first.getHigh(), counter[3], key1), first.getLow()};
  }
  return counter;
}

/// Returns the condition that dropout keeps the element with this random word.
Value AttentionMapper::kept(Value word) {
  auto threshold = static_cast<uint32_t>(std::floor(std::ldexp(spec.p, 32)));
  return f.builder.create<arith::CmpIOp>(
      f.loc, arith::CmpIPredicate::uge, word,
      i32.constant(static_cast<int32_t>(threshold)));
}

AttentionMapper::Values AttentionMapper::keep(const WarpTile &tile, Value row,
                                              const ColumnTile &tileColumns,
                                              bool keysAreColumns) {
  // Philox draws four words at a time. If the length of a row is a multiple of
  // four, no two rows need words of the same draw, so that lanes can share
  // draws within a row.
  return spec.seq % 4 == 0 ? keepShared(tile, row, tileColumns, keysAreColumns)
                           : keepApart(tile, row, tileColumns, keysAreColumns);
}

AttentionMapper::Values
AttentionMapper::keepShared(const WarpTile &tile, Value row,
                            const ColumnTile &tileColumns,
                            bool keysAreColumns) {
  OpBuilder &b = f.builder;
  codegen::IntBuilder i64(b, f.loc, b.getI64Type());
  RandomShares shares = tiles->randomShares(keysAreColumns);
  Value firstBlock = i64.div(firstRandom, 4);
  Value drawnRow = i32.add(row, shares.row);
  // One bit for each random word that this lane draws, four words in each step.
  // A bit is set if dropout keeps the word's element.
  Value bits = i32.constant(0);
  int64_t steps = tile.columns * tiles->lanesOfRow() / 8;
  for (int64_t t = 0; t < steps; ++t) {
    Value other = columnAt(tileColumns, shares.column, 8 * t);
    Value query = keysAreColumns ? drawnRow : other;
    Value key = keysAreColumns ? other : drawnRow;
    Value block = i64.add(
        i64.add(firstBlock, i64.mul(i64.from(query), spec.wholeSeq() / 4)),
        i64.from(i32.div(key, 4)));
    for (auto [number, word] : llvm::enumerate(philox(block))) {
      auto bit = static_cast<int32_t>(uint32_t(1) << (4 * t + number));
      Value mine = i32.select(kept(word), i32.constant(bit), i32.constant(0));
      bits = b.create<arith::OrIOp>(f.loc, bits, mine);
    }
  }
  Values answers;
  for (Value lane : shares.lanes)
    answers.push_back(b.create<arith::ShRUIOp>(
        f.loc, tiles->shuffle(bits, lane), shares.key));
  Values result;
  for (int64_t i = 0; i < tile.rows; ++i)
    for (int64_t j = 0; j < tile.columns; ++j) {
      RandomShares::WordSource word = shares.sourceOf(i, j);
      auto bit =
          static_cast<int32_t>(uint32_t(1) << (4 * word.step + word.keyOffset));
      Value mine = b.create<arith::AndIOp>(f.loc, answers[word.source],
                                           i32.constant(bit));
      result.push_back(b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ne,
                                               mine, i32.constant(0)));
    }
  return result;
}

AttentionMapper::Values
AttentionMapper::keepApart(const WarpTile &tile, Value row,
                           const ColumnTile &tileColumns, bool keysAreColumns) {
  OpBuilder &b = f.builder;
  codegen::IntBuilder i64(b, f.loc, b.getI64Type());
  Values result;
  for (int64_t i = 0; i < tile.rows; ++i)
    for (int64_t j = 0; j < tile.columns; ++j) {
      Value atRow = i32.add(row, tiles->row(i));
      Value atColumn =
          columnAt(tileColumns, tiles->firstColumn(), tiles->columnOffset(j));
      Value query = keysAreColumns ? atRow : atColumn;
      Value key = keysAreColumns ? atColumn : atRow;
      Value index = i64.add(
          i64.add(firstRandom, i64.mul(i64.from(query), spec.wholeSeq())),
          i64.from(key));
      Values words = philox(i64.div(index, 4));
      Value number = i32.rem(i32.from(index), 4);
      Value word = words[0];
      for (int64_t other = 1; other < 4; ++other) {
        Value isOther = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::eq,
                                                number, i32.constant(other));
        word = i32.select(isOther, words[other], word);
      }
      result.push_back(kept(word));
    }
  return result;
}

} // namespace heddle::gpu
