//===- PackedNumbers.cpp - Rows as whole numbers --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedNumbers.h"
#include "heddle/PlanFormat/Packed.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

static constexpr int64_t lanes = 16;
/// Longer groups are cut, so that one large element spoils few others.
static constexpr int64_t longestBlock = 256, cutBlock = 128;
/// Bits of the largest number of a block: with one of 8 bits, products of 256
/// fit in 32.
static constexpr int32_t numberBits = 14;
static constexpr int64_t numberBytes = 2;

PackedNumbers::Layout::Layout(const PackedGemmSpec &spec)
    : groups(std::max<int64_t>(spec.groups, 1)), groupLength(spec.k / groups),
      blockLength(groupLength <= longestBlock ? groupLength : cutBlock),
      scalesAt(llvm::alignTo(
          llvm::alignTo(spec.k, plan::Packed::wordBits / spec.bits) *
              numberBytes,
          64)) {}

int64_t PackedNumbers::Layout::bytes() const {
  return llvm::alignTo(
      scalesAt + groups * blocksOfGroup() * int64_t(sizeof(float)), 64);
}

PackedNumbers::PackedNumbers(LoopBuilder &builder, const PackedGemmSpec &spec,
                             const PackedWords &words)
    : layout(spec), b(builder), spec(spec), words(words),
      i32s(VectorType::get(lanes, builder.builder.getI32Type())),
      f32s(VectorType::get(lanes, builder.builder.getF32Type())) {}

Value PackedNumbers::integer(int32_t value) {
  return b.create<arith::ConstantOp>(b.builder.getI32IntegerAttr(value));
}

Value PackedNumbers::real(float value) {
  return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(value));
}

Value PackedNumbers::splat(Value scalar, VectorType type) {
  return b.create<vector::BroadcastOp>(type, scalar);
}

/// Calls `body` for the vectors of a block, with how many elements each has.
Values PackedNumbers::eachVector(
    int64_t length, ValueRange init,
    llvm::function_ref<Values(Value, int64_t, ValueRange)> body) {
  int64_t full = length / lanes * lanes;
  Values carried(init);
  if (full > 0)
    carried = b.forLoop(
        b.constant(0), b.constant(full), lanes, init,
        [&](Value at, ValueRange now) { return body(at, lanes, now); });
  return full < length ? body(b.constant(full), length - full, carried)
                       : carried;
}

Value PackedNumbers::loadRow(Value from, Value at, int64_t count) {
  Value mask = count < lanes ? b.mask(b.constant(count), lanes) : Value();
  unsigned alignment = spec.aType.getIntOrFloatBitWidth() / 8;
  return b.widen(b.load(VectorType::get(lanes, spec.aType),
                        b.advance(from, spec.aType, at), alignment, mask));
}

/// Stores numbers in the order in which factors have the codes of a word; those
/// behind the end, to a whole word, are 0.
void PackedNumbers::storeNumbers(Value numbers, Value to, int64_t count) {
  SmallVector<int64_t> order;
  for (int64_t word = 0; word < lanes; word += words.perWord)
    for (int64_t step = 0; step < words.steps(); ++step)
      order.append({word + step, word + step + 2});
  auto type = VectorType::get(lanes, b.builder.getI16Type());
  Value ordered =
      b.create<arith::TruncIOp>(type, b.shuffle(numbers, numbers, order));
  int64_t all = llvm::alignTo(count, words.perWord);
  b.store(ordered, to, numberBytes,
          all < lanes ? b.mask(b.constant(all), lanes) : Value());
}

/// The bits of the largest magnitude of a block: without their signs, bits of
/// floats are in the order of their values.
Value PackedNumbers::largestBits(Value from, int64_t length) {
  Value magnitude = splat(integer(0x7fffffff), i32s);
  auto body = [&](Value at, int64_t count, ValueRange carried) -> Values {
    Value bits = b.create<arith::AndIOp>(
        b.create<LLVM::BitcastOp>(i32s, loadRow(from, at, count)), magnitude);
    return {b.create<arith::MaxSIOp>(carried[0], bits)};
  };
  Value zeros = splat(integer(0), i32s);
  return b.create<vector::ReductionOp>(vector::CombiningKind::MAXSI,
                                       eachVector(length, zeros, body)[0]);
}

/// Makes numbers of `length` elements from `first` on; the sum of these.
Value PackedNumbers::prepareBlock(Value from, Value to, Value first,
                                  int64_t length, Value scaleAt) {
  Type i16 = b.builder.getI16Type(), f32 = b.builder.getF32Type();
  from = b.advance(from, spec.aType, first);
  to = b.advance(to, i16, first);
  // Between the biased exponents of what f32 can have as a scale.
  Value exponent = b.create<arith::MaxSIOp>(
      b.create<arith::ShRUIOp>(largestBits(from, length), integer(23)),
      integer(numberBits));
  auto powerOfTwo = [&](Value biased) -> Value {
    return b.create<LLVM::BitcastOp>(
        f32, b.create<arith::ShLIOp>(biased, integer(23)));
  };
  Value factor = powerOfTwo(
      b.create<arith::SubIOp>(integer(2 * 127 + numberBits - 1), exponent));
  Value scale =
      powerOfTwo(b.create<arith::SubIOp>(exponent, integer(numberBits - 1)));
  // What is not finite makes the sums so.
  Value isFinite = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, exponent,
                                           integer(255));
  scale = b.create<arith::SelectOp>(
      isFinite, scale, real(std::numeric_limits<float>::quiet_NaN()));
  b.store(scale, scaleAt, sizeof(float));

  // The sum with 1.5 * 2^23 is rounded to a whole number, in its lowest bits.
  Value factors = splat(factor, f32s), rounding = splat(real(12582912), f32s);
  Value raised = splat(integer(0x4b400000), i32s);
  auto body = [&](Value at, int64_t count, ValueRange carried) -> Values {
    Value x =
        b.create<vector::FMAOp>(loadRow(from, at, count), factors, rounding);
    Value numbers =
        b.create<arith::SubIOp>(b.create<LLVM::BitcastOp>(i32s, x), raised);
    storeNumbers(numbers, b.advance(to, i16, at), count);
    return {b.create<arith::AddIOp>(carried[0], numbers)};
  };
  Value zeros = splat(integer(0), i32s);
  Value sum = b.create<vector::ReductionOp>(vector::CombiningKind::ADD,
                                            eachVector(length, zeros, body)[0]);
  return b.create<arith::MulFOp>(b.create<arith::SIToFPOp>(f32, sum), scale);
}

void PackedNumbers::prepareRow(Value from, Value to, Value groupSums) {
  Type f32 = b.builder.getF32Type();
  Value scales =
      b.advance(to, b.builder.getI8Type(), b.constant(layout.scalesAt));
  int64_t others = layout.blocksOfGroup() - 1;
  b.forLoop(b.constant(0), b.constant(layout.groups), 1, [&](Value group) {
    Value first = b.mul(group, layout.groupLength);
    Value firstBlock = b.mul(group, layout.blocksOfGroup());
    auto add = [&](Value block, int64_t length, Value sum) -> Value {
      Value at = b.add(first, b.mul(block, layout.blockLength));
      Value scaleAt = b.advance(scales, f32, b.add(firstBlock, block));
      return b.create<arith::AddFOp>(
          sum, prepareBlock(from, to, at, length, scaleAt));
    };
    Value sum = real(0);
    if (others > 0)
      sum = b.forLoop(b.constant(0), b.constant(others), 1, {sum},
                      [&](Value block, ValueRange carried) -> Values {
                        return {add(block, layout.blockLength, carried[0])};
                      })[0];
    sum = add(b.constant(others), layout.lastLength(), sum);
    if (groupSums)
      b.store(sum, b.advance(groupSums, f32, group), sizeof(float));
  });
}

Value PackedNumbers::addBlock(Value row, Value block, Value numbers,
                              Value sum) {
  Type f32 = b.builder.getF32Type();
  Value scales =
      b.advance(row, b.builder.getI8Type(), b.constant(layout.scalesAt));
  Value scale = b.load(f32, b.advance(scales, f32, block), sizeof(float));
  return b.create<vector::FMAOp>(b.create<arith::SIToFPOp>(f32s, numbers),
                                 splat(scale, f32s), sum);
}

} // namespace heddle::cpu
