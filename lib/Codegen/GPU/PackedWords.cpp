//===- PackedWords.cpp - Elements of packed words as floats ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts words of packed weights in registers: int4 and int8 codes to pairs
// of bf16 or f16 for tensor cores, and all elements to f32.
//
//===----------------------------------------------------------------------===//

#include "PackedTiles.h"

using namespace mlir;

namespace heddle::gpu {

/// Emits a * b + c on pairs of floats of 16 bits, each pair in an i32.
static Value multiplyAddPairs(ThreadCode &c, Type type, Value a, Value b,
                              Value addend) {
  auto pair = VectorType::get({2}, type);
  auto of = [&](Value word) { return c.create<LLVM::BitcastOp>(pair, word); };
  Value sum = c.call(type.isBF16() ? "llvm.nvvm.fma.rn.bf16x2"
                                   : "llvm.nvvm.fma.rn.f16x2",
                     pair, {of(a), of(b), of(addend)});
  return c.create<LLVM::BitcastOp>(c.builder.getI32Type(), sum);
}

/// A pair of equal halves: `bits` twice.
static Value twice(ThreadCode &c, uint32_t bits) {
  return c.constant(static_cast<int32_t>(bits << 16 | bits));
}

/// The bits of 1 as a float of 16 bits.
static uint32_t oneOf(Type type) { return type.isBF16() ? 0x3f80 : 0x3c00; }

/// The integers from `magicInteger` on have this exponent, and the last bit of
/// their mantissa is 1: in bf16 128 to 255, in f16 1024 to 2047. So an unsigned
/// integer that replaces the last bits is added to `magicInteger`.
static uint32_t magicOf(Type type) { return type.isBF16() ? 0x4300 : 0x6400; }
static int64_t magicInteger(Type type) { return type.isBF16() ? 128 : 1024; }

/// Emits (word & bits) ^ flipped as one instruction.
static Value selectBits(ThreadCode &c, Value word, uint32_t bits,
                        uint32_t flipped) {
  // The truth table of lop3 for (a & b) ^ c.
  constexpr int table = (0xf0 & 0xcc) ^ 0xaa;
  Value operands[] = {word, c.constant(static_cast<int32_t>(bits)),
                      c.constant(static_cast<int32_t>(flipped))};
  auto op = emitPtx(c.builder, c.loc, c.builder.getI32Type(), operands,
                    "lop3.b32 $0, $1, $2, $3, " + std::to_string(table) + ";",
                    "=r,r,n,n", /*hasSideEffects=*/false);
  return op.getResult(0);
}

static Value andBits(ThreadCode &c, Value a, uint32_t bits) {
  return c.create<arith::AndIOp>(a, c.constant(static_cast<int32_t>(bits)));
}

/// Emits pairs of bytes of `word`, each byte under the upper byte of `magic`.
static SmallVector<Value> bytePairs(ThreadCode &c, Value word, uint32_t magic,
                                    CodeOrder order) {
  SmallVector<Value> pairs;
  bool isAdjacent = order == CodeOrder::Adjacent;
  for (int64_t selector :
       {isAdjacent ? 0x4140 : 0x4240, isAdjacent ? 0x4342 : 0x4341})
    pairs.push_back(
        c.call("llvm.nvvm.prmt", c.builder.getI32Type(),
               {word, twice(c, magic | magic >> 8), c.constant(selector)}));
  return pairs;
}

/// Whether codes are converted by an addition alone. int8 codes have more bits
/// than the mantissa of bf16.
static bool isOffset(int64_t bits, Type type) {
  return bits == 4 || !type.isBF16();
}

Value codeOffsets(ThreadCode &c, int64_t bits, Type type, Value zero) {
  // The sign bit of a code is flipped first, which makes it unsigned.
  int64_t added = isOffset(bits, type)
                      ? magicInteger(type) + (int64_t(1) << (bits - 1))
                      : 0;
  if (!zero && added == 0)
    return {};
  if (!zero) {
    FloatAttr value = c.builder.getFloatAttr(type, static_cast<double>(-added));
    return twice(c, value.getValue().bitcastToAPInt().getZExtValue());
  }
  Value offset = c.create<arith::SubFOp>(
      c.builder.create<arith::ConstantOp>(
          c.loc, c.builder.getF32FloatAttr(static_cast<float>(-added))),
      zero);
  Value pair =
      c.call(type.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn",
             VectorType::get({2}, type), {offset, offset});
  return c.create<LLVM::BitcastOp>(c.builder.getI32Type(), pair);
}

SmallVector<Value> codePairs(ThreadCode &c, int64_t bits, Type type, Value word,
                             Value offsets, CodeOrder order) {
  uint32_t magic = magicOf(type);
  Value one = twice(c, oneOf(type));
  SmallVector<Value> pairs;
  if (bits == 4) {
    for (int64_t i = 0; i < 4; ++i) {
      Value shifted =
          i ? c.create<arith::ShRUIOp>(word, c.constant(4 * i)) : word;
      pairs.push_back(
          selectBits(c, shifted, 0x000f000f, (magic | 8) << 16 | magic | 8));
    }
  } else if (isOffset(bits, type)) {
    pairs = bytePairs(c, c.exclusiveOr(word, c.constant(int32_t(0x80808080))),
                      magic, order);
  } else {
    // The last seven bits of a code, plus 128, minus 128 or for negative codes
    // 256: the eighth bit doubles the float.
    Value minusOne = twice(c, oneOf(type) | 0x8000);
    for (Value both : bytePairs(c, word, magic, order))
      pairs.push_back(multiplyAddPairs(c, type, andBits(c, both, 0xff80ff80),
                                       minusOne, andBits(c, both, 0xff7fff7f)));
  }
  if (offsets)
    for (Value &pair : pairs)
      pair = multiplyAddPairs(c, type, pair, one, offsets);
  return pairs;
}

SmallVector<Value> wordFloats(ThreadCode &c, int64_t bits, Type type,
                              Value word) {
  constexpr int64_t wordBits = plan::PackedWeight::wordBits;
  OpBuilder &b = c.builder;
  if (bits == wordBits)
    return {c.create<arith::BitcastOp>(b.getF32Type(), word)};
  SmallVector<Value> floats;
  for (int64_t i = 0; i < wordBits / bits; ++i) {
    int64_t above = wordBits - bits - plan::PackedWeight::bitOf(bits, i);
    Value high = c.create<arith::ShLIOp>(word, c.constant(above));
    if (!type) {
      Value code = c.create<arith::ShRSIOp>(high, c.constant(wordBits - bits));
      floats.push_back(c.create<arith::SIToFPOp>(b.getF32Type(), code));
      continue;
    }
    Value low = c.create<arith::ShRUIOp>(high, c.constant(wordBits - bits));
    Value half = c.create<arith::TruncIOp>(b.getI16Type(), low);
    floats.push_back(c.widen(c.create<arith::BitcastOp>(type, half)));
  }
  return floats;
}

} // namespace heddle::gpu
