//===- IntegerActivations.cpp - Rows as int8 or int16 ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IntegerActivations.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

/// A group of activations, which multiply weights with a common scale, is cut
/// into blocks of `cutBlock` elements if it is longer than `longestBlock`. Each
/// block has a scale of its own. A large element makes the scale large and so
/// the integers of its whole block less precise. In short blocks fewer elements
/// are affected.
static constexpr int64_t longestBlock = 256, cutBlock = 128;
static constexpr float largestCode = 127;
/// The scale of int8 activations is computed as if the largest magnitude of a
/// block were at least 2^leastExponent (nn.packed_linear).
static constexpr int32_t leastExponent = -100;

static int64_t blockLengthOf(const PackedGemmSpec &spec, int64_t groupLength) {
  if (spec.inputBlock > 0)
    return std::min(spec.inputBlock, groupLength);
  return groupLength <= longestBlock ? groupLength : cutBlock;
}

IntegerActivations::Layout::Layout(const PackedGemmSpec &spec)
    : groups(std::max<int64_t>(spec.groups, 1)), groupLength(spec.k / groups),
      blockLength(blockLengthOf(spec, groupLength)) {
  int64_t integers =
      llvm::alignTo(spec.k, plan::PackedWeight::wordBits / spec.bits);
  digitsAt = llvm::alignTo(integers, 64);
  scalesAt = 2 * digitsAt;
  beginsAt = llvm::alignTo(
      scalesAt + groups * blocksOfGroup() * int64_t(sizeof(float)), 64);
}

int64_t IntegerActivations::Layout::bytes() const {
  return 2 * beginsAt - scalesAt; // There are as many sums as scales.
}

IntegerActivations::IntegerActivations(LoopBuilder &builder,
                                       const PackedGemmSpec &spec,
                                       const WeightUnpacker &unpacker,
                                       int64_t lanes)
    : layout(spec), b(builder), spec(spec), unpacker(unpacker), lanes(lanes),
      i32s(VectorType::get(lanes, builder.builder.getI32Type())),
      f32s(VectorType::get(lanes, builder.builder.getF32Type())) {}

Value IntegerActivations::integer(int32_t value) {
  return b.create<arith::ConstantOp>(b.builder.getI32IntegerAttr(value));
}

Value IntegerActivations::real(float value) {
  return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(value));
}

Value IntegerActivations::splat(Value scalar, VectorType type) {
  return b.create<vector::BroadcastOp>(type, scalar);
}

/// Emits a loop over the vectors of a block of `length` elements; `body` gets
/// the index of a vector's first element and its number of elements.
Values IntegerActivations::eachVector(
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

Value IntegerActivations::loadRow(Value from, Value at, int64_t count) {
  Value mask = count < lanes ? b.mask(b.constant(count), lanes) : Value();
  unsigned alignment = spec.aType.getIntOrFloatBitWidth() / 8;
  return b.widen(b.load(VectorType::get(lanes, spec.aType),
                        b.advance(from, spec.aType, at), alignment, mask));
}

Type IntegerActivations::integerType() const {
  return b.builder.getIntegerType(unpacker.elementBits);
}

/// Stores a vector of rounded activations in the order in which the weight
/// unpacker produces the codes of a packed word, so that each activation is
/// multiplied by the code with the same index along K. Only the first `count`
/// activations exist; the rest of the last word becomes zero.
void IntegerActivations::storeIntegers(Value integers, Value to,
                                       int64_t count) {
  int64_t all = llvm::alignTo(count, unpacker.perWord);
  Value mask = all < lanes ? b.mask(b.constant(all), lanes) : Value();
  unsigned alignment = integerType().getIntOrFloatBitWidth() / 8;
  SmallVector<int64_t> order;
  for (int64_t word = 0; word < lanes; word += unpacker.perWord)
    for (int64_t index : unpacker.orderOfInputs())
      order.push_back(word + index);
  integers = b.shuffle(integers, integers, order);
  auto store = [&](Value digits, int64_t bytes) {
    b.store(b.create<arith::TruncIOp>(VectorType::get(lanes, integerType()),
                                      digits),
            b.advance(to, b.builder.getI8Type(), bytes), alignment, mask);
  };
  if (unpacker.digits == 1)
    return store(integers, 0);
  // Split each integer into high * 2^digitBits + low. Because the low digit is
  // signed, the high digit is the quotient rounded to nearest, not down.
  Value half = splat(integer(1 << (unpacker.digitBits - 1)), i32s);
  Value bits = splat(integer(unpacker.digitBits), i32s);
  Value above =
      b.create<arith::ShRSIOp>(b.create<arith::AddIOp>(integers, half), bits);
  store(b.create<arith::SubIOp>(integers, b.create<arith::ShLIOp>(above, bits)),
        0);
  store(above, layout.digitsAt);
}

/// The largest magnitude of a block, as the i32 with the bits of the f32.
/// Magnitudes can be compared as i32, because without the sign the bits of f32
/// have the same order as the values.
Value IntegerActivations::largestBits(Value from, int64_t length) {
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

/// Returns the scaling of a block by a power of two. `largest` has the f32 bits
/// of the block's largest magnitude. If the biased exponent of this magnitude
/// is less than `activationBits` (the width of the integers), the function uses
/// `activationBits` as exponent, so that the scale is a normal f32.
IntegerActivations::Scaling
IntegerActivations::powerOfTwoScaling(Value largest) {
  Type f32 = b.builder.getF32Type();
  auto activationBits = static_cast<int32_t>(unpacker.activationBits);
  Value exponent = b.create<arith::MaxSIOp>(
      b.create<arith::ShRUIOp>(largest, integer(23)), integer(activationBits));
  auto power = [&](Value biased) -> Value {
    return b.create<LLVM::BitcastOp>(
        f32, b.create<arith::ShLIOp>(biased, integer(23)));
  };
  return {
      power(b.create<arith::SubIOp>(integer(2 * 127 + activationBits - 1),
                                    exponent)),
      power(b.create<arith::SubIOp>(exponent, integer(activationBits - 1)))};
}

IntegerActivations::Scaling IntegerActivations::int8Scaling(Value largest) {
  Value least = integer((127 + leastExponent) << 23), most = real(largestCode);
  Value size = b.create<LLVM::BitcastOp>(
      b.builder.getF32Type(), b.create<arith::MaxSIOp>(largest, least));
  return {b.create<arith::DivFOp>(most, size),
          b.create<arith::DivFOp>(size, most)};
}

/// Rounds one block of a row to integers. The block has index `block` and the
/// `length` elements from `first` on. `from` and `to` are the addresses of the
/// row and of the prepared row with the integers. Returns the sum of the
/// rounded elements, in f32.
Value IntegerActivations::prepareBlock(Value from, Value to, Value first,
                                       int64_t length, Value block) {
  Type f32 = b.builder.getF32Type();
  from = b.advance(from, spec.aType, first);
  Value integersTo = b.advance(to, integerType(), first);
  Value largest = largestBits(from, length);
  Scaling scaling =
      spec.inputBlock > 0 ? int8Scaling(largest) : powerOfTwoScaling(largest);
  // A block with an element that is not finite gets the scale NaN, so that its
  // sums are NaN.
  Value isFinite = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, largest,
                                           integer(255 << 23));
  Value scale = b.create<arith::SelectOp>(
      isFinite, scaling.scale, real(std::numeric_limits<float>::quiet_NaN()));

  // Adding 1.5 * 2^23 rounds to an integer, which is then in the lowest bits.
  Value factors = splat(scaling.factor, f32s),
        rounding = splat(real(12582912), f32s);
  Value raised = splat(integer(0x4b400000), i32s);
  auto body = [&](Value start, int64_t count, ValueRange carried) -> Values {
    Value x =
        b.create<vector::FMAOp>(loadRow(from, start, count), factors, rounding);
    Value integers =
        b.create<arith::SubIOp>(b.create<LLVM::BitcastOp>(i32s, x), raised);
    storeIntegers(integers, b.advance(integersTo, integerType(), start), count);
    return {b.create<arith::AddIOp>(carried[0], integers)};
  };
  Value zeros = splat(integer(0), i32s);
  Value sum = b.create<vector::ReductionOp>(vector::CombiningKind::ADD,
                                            eachVector(length, zeros, body)[0]);
  b.store(scale, at(to, layout.scalesAt, block), sizeof(float));
  b.store(b.create<arith::MulIOp>(
              sum, integer(-static_cast<int32_t>(unpacker.codeOffset()))),
          at(to, layout.beginsAt, block), sizeof(int32_t));
  return b.create<arith::MulFOp>(b.create<arith::SIToFPOp>(f32, sum), scale);
}

/// A prepared row (a row of A as integers) has tables with a 32-bit value for
/// each block. Returns the address of the entry for `block` in the table that
/// begins `bytes` bytes after the beginning of the row.
Value IntegerActivations::at(Value row, int64_t bytes, Value block) {
  return b.advance(b.advance(row, b.builder.getI8Type(), bytes),
                   b.builder.getI32Type(), block);
}

void IntegerActivations::prepareRow(Value from, Value to, Value groupSums) {
  Type f32 = b.builder.getF32Type();
  int64_t others = layout.blocksOfGroup() - 1;
  b.forLoop(b.constant(0), b.constant(layout.groups), 1, [&](Value group) {
    Value first = b.mul(group, layout.groupLength);
    Value firstBlock = b.mul(group, layout.blocksOfGroup());
    auto add = [&](Value block, int64_t length, Value sum) -> Value {
      Value begin = b.add(first, b.mul(block, layout.blockLength));
      return b.create<arith::AddFOp>(
          sum, prepareBlock(from, to, begin, length, b.add(firstBlock, block)));
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

Value IntegerActivations::beginOfSums(Value begin) {
  return splat(b.load(b.builder.getI32Type(), begin, sizeof(int32_t)), i32s);
}

Value IntegerActivations::addBlock(Value scale, ValueRange integers,
                                   Value sum) {
  Value whole = integers.back();
  for (Value lower : llvm::reverse(integers.drop_back()))
    whole = b.create<arith::AddIOp>(
        b.create<arith::ShLIOp>(whole,
                                splat(integer(unpacker.digitBits), i32s)),
        lower);
  Value factor = b.load(b.builder.getF32Type(), scale, sizeof(float));
  return b.create<vector::FMAOp>(b.create<arith::SIToFPOp>(f32s, whole),
                                 splat(factor, f32s), sum);
}

} // namespace heddle::cpu
