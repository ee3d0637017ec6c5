//===- AttentionDropout.cpp - Random numbers of attention's dropout -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The random numbers of attention's dropout: Philox4x32-10 (Salmon et al.,
// SC11) over the tensor of probabilities [B, H, T, T], with the indices that
// nn.dropout defines. A 32-bit word is in a 64-bit lane whose upper half is
// arbitrary, because the 32 x 32 -> 64 bit multiplication reads and writes this
// form. So a vector has random numbers for only half as many queries as it has
// f32 lanes, and the code computes even and odd queries separately.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include <cmath>

using namespace mlir;

namespace heddle::cpu {

static constexpr int64_t lowHalf = 0xFFFFFFFF;

static Value wideConstant(LoopBuilder &b, VectorType type, int64_t value) {
  return b.create<arith::ConstantOp>(DenseElementsAttr::get(type, value));
}

void AttentionEmitter::prepareRandom(const AttentionRandom &random) {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  Value rng = b.pointerTo(random.rng);
  auto word = [&](int64_t index) {
    return b.create<arith::ExtUIOp>(i64,
                                    b.load(i32, b.advance(rng, i32, index), 4));
  };
  Value keys[2] = {word(0), word(1)};
  static constexpr int64_t weyl[2] = {0x9E3779B9, 0xBB67AE85};
  for (int round = 0; round < 10; ++round)
    for (int half = 0; half < 2; ++half) {
      roundKeys[round][half] = splat(keys[half], wideType);
      keys[half] = b.add(keys[half], weyl[half]);
    }
  step = splat(word(2), wideType);
  Value layer = b.mul(b.toI64(random.layer), weyl[0]);
  stream = splat(b.add(layer, spec.site), wideType);
  microBatch = random.microBatch;
  part = random.part;
}

Value AttentionEmitter::firstProbability(Value batch, Value head) {
  return codegen::firstProbability(spec, *visible, integers(), microBatch, part,
                                   batch, head);
}

AttentionEmitter::PhiloxState AttentionEmitter::philox(Value block) {
  Value low = wideConstant(b, wideType, lowHalf);
  Value half = wideConstant(b, wideType, 32);
  Value factors[2] = {wideConstant(b, wideType, 0xD2511F53),
                      wideConstant(b, wideType, 0xCD9E8D57)};
  auto high = [&](Value value) {
    return b.create<arith::ShRUIOp>(value, half);
  };
  auto mix = [&](Value x, Value y, Value key) {
    return b.create<arith::XOrIOp>(b.create<arith::XOrIOp>(x, y), key);
  };
  PhiloxState state = {{block, high(block), step, stream}};
  for (auto &key : roundKeys) {
    auto &counter = state.counter;
    Value first = b.mul(b.create<arith::AndIOp>(counter[0], low), factors[0]);
    Value second = b.mul(b.create<arith::AndIOp>(counter[2], low), factors[1]);
    state = {{mix(high(second), counter[1], key[0]), second,
              mix(high(first), counter[3], key[1]), first}};
  }
  return state;
}

/// Dropout finds the random bits of a probability by the index of this
/// probability (codegen::firstProbability). Returns the indices for one key and
/// the even (`parity` 0) or odd queries of a vector. `first` is the index for
/// the first query of the vector.
Value AttentionEmitter::indexVector(Value first, int64_t parity) {
  SmallVector<int64_t> offsets;
  for (int64_t lane = parity; lane < blocking.lanes; lane += 2)
    offsets.push_back(lane * spec.wholeSeq());
  Value offset = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(wideType, ArrayRef<int64_t>(offsets)));
  return b.add(splat(first, wideType), offset);
}

LoopBuilder::Values AttentionEmitter::keep(Value firstProbability, Value query,
                                           Value key) {
  Value first =
      b.add(b.add(firstProbability, b.mul(query, spec.wholeSeq())), key);
  Value two = wideConstant(b, wideType, 2);
  auto randomWords = [&](int64_t parity) -> Values {
    Value index = indexVector(first, parity);
    if (spec.seq % 4 == 0) {
      PhiloxState state = philox(b.create<arith::ShRUIOp>(index, two));
      return Values(std::begin(state.counter), std::end(state.counter));
    }
    // A Philox block has four random words. If the length of the sequence is no
    // multiple of four, the words of four adjacent keys may lie in two blocks.
    // The offset of the first word in its block differs between queries.
    Value block = b.create<arith::ShRUIOp>(index, two);
    PhiloxState states[2] = {
        philox(block), philox(b.add(block, wideConstant(b, wideType, 1)))};
    Value start = b.create<arith::AndIOp>(index, wideConstant(b, wideType, 3));
    Values result;
    for (int64_t k = 0; k < 4; ++k) {
      Value word = states[0].counter[k];
      for (int64_t shift = 1; shift < 4; ++shift) {
        Value isShift = b.equal(start, wideConstant(b, wideType, shift));
        int64_t at = k + shift;
        word = b.select(isShift, states[at / 4].counter[at % 4], word);
      }
      result.push_back(word);
    }
    return result;
  };
  Values even = randomWords(0), odd = randomWords(1), kept;
  auto wordType = vectorType.clone(b.builder.getI32Type());
  auto threshold = static_cast<uint32_t>(std::floor(spec.p * 0x1p32));
  Value bound = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(wordType, static_cast<int32_t>(threshold)));
  for (int64_t k = 0; k < 4; ++k) {
    Value low =
        b.create<arith::AndIOp>(even[k], wideConstant(b, wideType, lowHalf));
    Value high = b.create<arith::ShLIOp>(odd[k], wideConstant(b, wideType, 32));
    Value both = b.create<vector::BitCastOp>(wordType,
                                             b.create<arith::OrIOp>(low, high));
    kept.push_back(
        b.create<arith::CmpIOp>(arith::CmpIPredicate::uge, both, bound));
  }
  return kept;
}

} // namespace heddle::cpu
