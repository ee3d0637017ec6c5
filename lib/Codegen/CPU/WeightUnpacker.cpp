//===- WeightUnpacker.cpp - Unpacks int4 and int8 weights -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightUnpacker.h"
#include "PackedGemmAmx.h"
#include "PairUnit.h"
#include "dialects/Dist/ComputeType.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;

namespace heddle::cpu {

static constexpr int64_t wordBits = plan::PackedWeight::wordBits;

bool WeightUnpacker::usesIntegers(const PackedGemmSpec &spec,
                                  const CpuTarget &target) {
  bool isCode =
      spec.bits == 8 ||
      (spec.bits == 4 &&
       (target.hasAmx || !multipliesPairs(target, spec.aType, spec.aType)));
  return spec.inputBlock > 0 || (dist::isNarrow(spec.aType) && isCode);
}

/// The width, in bits, of the integers that are multiplied: the codes of the
/// weight, and activations or the two digits (`inDigits`) into which a 16-bit
/// activation is split. int8 codes and int8 activations are multiplied in 16
/// bits if there is no VNNI. The reason: the older instruction for bytes adds
/// two products in 16 bits, which may overflow.
static int64_t elementBitsOf(const PackedGemmSpec &spec,
                             const CpuTarget &target, bool inDigits) {
  bool isByte =
      spec.inputBlock > 0 ? target.hasVnni || spec.bits < 8 : inDigits;
  return isByte ? 8 : 16;
}

WeightUnpacker::WeightUnpacker(LoopBuilder &builder, const PackedGemmSpec &spec,
                               const CpuTarget &target, bool inDigits)
    : isInteger(usesIntegers(spec, target)),
      digits(isInteger && inDigits && spec.inputBlock == 0 ? 2 : 1),
      elementBits(elementBitsOf(spec, target, inDigits)),
      activationBits(target.hasVnni || spec.bits < 8 ? 14 : 13),
      digitBits(activationBits - 6),
      dot((multipliesPairs(target, spec.aType, spec.aType) ||
           PackedGemmAmx::isUsedFor(spec, target)) &&
          spec.bits < wordBits && spec.inputBlock == 0 && !isInteger),
      perWord(wordBits / spec.bits), b(builder), spec(spec),
      hasAvx512(target.hasAvx512), hasVnni(target.hasVnni),
      wordType(VectorType::get(target.lanes(), builder.builder.getI32Type())),
      f32s(VectorType::get(target.lanes(), builder.builder.getF32Type())) {
  if (spec.bits != 4 || !hasAvx512 || isInteger)
    return;
  // `table` is a vector constant that maps an int4 code to its value as a
  // float. The permute instructions use only the low bits of a lane as index,
  // so the bits above a code need not be cleared.
  auto valueOf = [](int64_t index) {
    return static_cast<double>(index % 16 < 8 ? index % 16 : index % 16 - 16);
  };
  SmallVector<APFloat> values;
  auto element = dot ? cast<FloatType>(spec.aType) : b.builder.getF32Type();
  for (int64_t index = 0; index < (dot ? 32 : 16); ++index) {
    APFloat value(valueOf(index));
    bool loses = false;
    value.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &loses);
    values.push_back(value);
  }
  auto type = VectorType::get(static_cast<int64_t>(values.size()), element);
  table = b.create<arith::ConstantOp>(DenseElementsAttr::get(type, values));
  if (dot)
    table = b.create<LLVM::BitcastOp>(
        VectorType::get(32, b.builder.getI16Type()), table);
}

Value WeightUnpacker::intrinsic(StringRef name, Type type,
                                ValueRange operands) {
  return b.builder
      .create<LLVM::CallIntrinsicOp>(b.loc, type, b.builder.getStringAttr(name),
                                     operands)
      .getResult(0);
}

Value WeightUnpacker::shift(Value word, int64_t bits, bool left,
                            bool isSigned) {
  if (bits == 0)
    return word;
  Value by = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      wordType, b.builder.getI32IntegerAttr(static_cast<int32_t>(bits))));
  if (left)
    return b.create<arith::ShLIOp>(word, by);
  if (isSigned)
    return b.create<arith::ShRSIOp>(word, by);
  return b.create<arith::ShRUIOp>(word, by);
}

/// Unpacks int4 or int8 code `index` of each word by shifts, to f32.
Value WeightUnpacker::unpackCode(Value word, int64_t index) {
  int64_t above =
      wordBits - spec.bits - plan::PackedWeight::bitOf(spec.bits, index);
  Value high = shift(word, above, /*left=*/true, /*isSigned=*/false);
  Value number =
      shift(high, wordBits - spec.bits, /*left=*/false, /*isSigned=*/true);
  return b.create<arith::SIToFPOp>(f32s, number);
}

/// A vector of words in which every field of `bits` bits holds `code`.
Value WeightUnpacker::replicateCode(int64_t code, int64_t bits) {
  int64_t word = 0;
  for (int64_t at = 0; at < wordBits; at += bits)
    word |= code << at;
  return b.create<arith::ConstantOp>(DenseElementsAttr::get(
      wordType, b.builder.getI32IntegerAttr(static_cast<int32_t>(word))));
}

/// Each field of `elementBits` bits of a word holds one or several codes.
/// Unpacks code `step` of every field and clears the other bits of the field.
Value WeightUnpacker::unsignedCodes(Value word, int64_t step) {
  Value low = shift(word, spec.bits * step, /*left=*/false, /*isSigned=*/false);
  if (spec.bits == elementBits)
    return low;
  return b.create<arith::AndIOp>(
      low, replicateCode((1 << spec.bits) - 1, elementBits));
}

Value WeightUnpacker::lookUpCode(Value word, int64_t index) {
  Value at =
      shift(word, plan::PackedWeight::bitOf(spec.bits, index), /*left=*/false,
            /*isSigned=*/false);
  return intrinsic("llvm.x86.avx512.permvar.sf.512", f32s, {table, at});
}

/// Unpacks two int4 codes to a pair of bf16 with one instruction, which
/// replaces each 16-bit half of a word by its entry in a table of the codes'
/// values. So the packed layout has the two codes at the same position of the
/// two halves.
Value WeightUnpacker::lookUpCodePair(Value word, int64_t step) {
  Value at = shift(word, plan::PackedWeight::bitOf(spec.bits, 2 * step),
                   /*left=*/false, /*isSigned=*/false);
  Type halves = table.getType();
  Value pair = intrinsic("llvm.x86.avx512.permvar.hi.512", halves,
                         {table, b.create<LLVM::BitcastOp>(halves, at)});
  return b.create<LLVM::BitcastOp>(wordType, pair);
}

/// Unpacks float `step` of each word, which holds two floats of 16 bits.
Value WeightUnpacker::unpackFloat(Value word, int64_t step) {
  if (spec.floatType.isBF16()) { // It is the upper half of an f32.
    Value upper = step == 0 ? shift(word, 16, /*left=*/true, /*isSigned=*/false)
                            : Value(b.create<arith::AndIOp>(
                                  word, replicateCode(0xffff0000, wordBits)));
    return b.create<LLVM::BitcastOp>(f32s, upper);
  }
  Value bits = b.create<arith::TruncIOp>(
      wordType.clone(b.builder.getI16Type()),
      shift(word, 16 * step, /*left=*/false, /*isSigned=*/false));
  return b.widen(b.create<LLVM::BitcastOp>(f32s.clone(spec.floatType), bits));
}

Value WeightUnpacker::prepare(Value word) {
  if (!isInteger)
    return word;
  return b.create<arith::XOrIOp>(word, replicateCode(codeOffset(), spec.bits));
}

Value WeightUnpacker::factor(Value prepared, int64_t step) {
  if (spec.bits == wordBits)
    return b.create<LLVM::BitcastOp>(f32s, prepared);
  if (spec.bits == 16) {
    if (dot)
      return prepared;
    return unpackFloat(prepared, step);
  }
  return isInteger ? unsignedCodes(prepared, step)
         : dot     ? lookUpCodePair(prepared, step)
         : table   ? lookUpCode(prepared, step)
                   : unpackCode(prepared, step);
}

SmallVector<int64_t> WeightUnpacker::orderOfInputs() const {
  SmallVector<int64_t> order;
  for (int64_t step = 0; step < steps(); ++step)
    for (int64_t bit = spec.bits * step; bit < wordBits; bit += elementBits)
      for (int64_t index = 0; index < perWord; ++index)
        if (plan::PackedWeight::bitOf(spec.bits, index) == bit)
          order.push_back(index);
  return order;
}

Value WeightUnpacker::multiplyPairs(Value factor, Value x) {
  auto elements = [&](int64_t bits) {
    return VectorType::get(
        wordType.getNumElements() * wordBits / bits,
        b.builder.getIntegerType(static_cast<unsigned>(bits)));
  };
  auto as = [&](Value value, int64_t bits) -> Value {
    return b.create<LLVM::BitcastOp>(elements(bits), value);
  };
  Value left = as(factor, elementBits), right = as(x, elementBits);
  if (elementBits == 8) {
    left = intrinsic(hasAvx512 ? "llvm.x86.avx512.pmaddubs.w.512"
                               : "llvm.x86.avx2.pmadd.ub.sw",
                     elements(16), {left, right});
    right = b.create<arith::ConstantOp>(
        DenseElementsAttr::get(elements(16), b.builder.getI16IntegerAttr(1)));
  }
  return intrinsic(hasAvx512 ? "llvm.x86.avx512.pmaddw.d.512"
                             : "llvm.x86.avx2.pmadd.wd",
                   wordType, {left, right});
}

Value WeightUnpacker::multiplyAdd(Value x, Value factor, Value sum) {
  if (isInteger && !hasVnni) // pmaddubs takes the unsigned operand first.
    return b.create<arith::AddIOp>(sum, multiplyPairs(factor, x));
  if (isInteger && elementBits == 8) // So does vpdpbusd.
    return intrinsic("llvm.x86.avx512.vpdpbusd.512", wordType,
                     {sum, factor, x});
  if (isInteger)
    return intrinsic("llvm.x86.avx512.vpdpwssd.512", wordType,
                     {sum, x, factor});
  if (!dot)
    return b.create<vector::FMAOp>(x, factor, sum);
  return addPairProducts(b, spec.aType, x, factor, sum);
}

} // namespace heddle::cpu
