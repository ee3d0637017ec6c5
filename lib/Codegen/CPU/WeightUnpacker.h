//===- WeightUnpacker.h - Unpacks int4 and int8 weights ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unpacks the packed words of nn.packed_linear's weight (int4, int8, bf16 or
// f32) in vector registers, and multiplies activations by them. The sums of
// these products are dequantized afterwards, by the scales, in PackedSums.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H
#define HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H

#include "PackedGemm.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Emits code that unpacks vectors of packed 32-bit words to factors. A factor
/// is a vector of unpacked weights: f32, pairs of bf16 if the target has dot
/// products of these, or integer codes. A vector of words gives several
/// factors, one after the other along K.
class WeightUnpacker {
public:
  /// Whether activations are converted to integers (IntegerActivations.h):
  /// always for int8 activations, and for rows of bf16 or fp16 with a quantized
  /// weight. But int4 weights with bf16 rows are multiplied as pairs of bf16 if
  /// the target has dot products of bf16, except on AMX, which multiplies
  /// bytes.
  static bool usesIntegers(const PackedGemmSpec &spec, const CpuTarget &target);

  /// With `inDigits`, an integer activation of 16 bits is split into two digits
  /// of 8 bits. Products with digits need two sums for each element of C. But
  /// then a factor (a vector of unpacked codes) has twice as many codes, so
  /// there are half as many factors to unpack.
  WeightUnpacker(LoopBuilder &builder, const PackedGemmSpec &spec,
                 const CpuTarget &target, bool inDigits);

  /// The number of packed words along K in one column of the weight.
  int64_t count() const { return (spec.k + perWord - 1) / perWord; }
  /// The number of factors (vectors of unpacked weights) that a vector of
  /// packed words gives. The product takes one step for each.
  int64_t steps() const {
    return isInteger ? elementBits / spec.bits : dot ? perWord / 2 : perWord;
  }
  /// For integer activations: the order of a packed word's codes after they are
  /// unpacked. Activations are stored in the same order, so that each is
  /// multiplied by its code.
  llvm::SmallVector<int64_t> orderOfInputs() const;
  /// The value that is added to each signed code, so that the code is unsigned.
  int64_t codeOffset() const { return isInteger ? 1 << (spec.bits - 1) : 0; }

  /// Prepares a vector of packed words, for example by making signed codes
  /// unsigned. Calls of `factor` take the result as `prepared`.
  mlir::Value prepare(mlir::Value word);
  /// Unpacks the factor (vector of weights) for step `step` of the product from
  /// a vector of prepared words; `step` is less than steps(). Does not apply
  /// scales and zero points.
  mlir::Value factor(mlir::Value prepared, int64_t step);
  /// x * factor + sum in f32; x is a vector of f32, or of pairs of bf16 as i32.
  /// If activations are integers, the sum is in i32, and x holds as many
  /// integers as the factor holds codes.
  mlir::Value multiplyAdd(mlir::Value x, mlir::Value factor, mlir::Value sum);

  bool isInteger; ///< Activations are rounded to integers.
  int64_t digits; ///< Digits of an activation; 1: it is not split.
  /// The width, in bits, of the integers that are multiplied: codes of the
  /// weight, and activations or the digits into which wider activations are
  /// split.
  int64_t elementBits;
  /// The width, in bits, of the largest integer to which a block of activations
  /// is rounded. Two sums limit it. A block has up to 256 activations, and the
  /// sum of their products with int8 codes must fit in 32 bits. Without VNNI,
  /// the sum of two products of a low digit (`digitBits` bits) and an int8 code
  /// must fit in 16 bits.
  int64_t activationBits;
  int64_t digitBits; ///< An activation is high * 2^digitBits + low digit.
  bool dot;          ///< A factor holds pairs of 16-bit elements.
  int64_t perWord;

private:
  mlir::Value unpackCode(mlir::Value word, int64_t index);
  mlir::Value unsignedCodes(mlir::Value word, int64_t step);
  mlir::Value replicateCode(int64_t code, int64_t bits);
  mlir::Value lookUpCode(mlir::Value word, int64_t index);
  mlir::Value unpackFloat(mlir::Value word, int64_t step);
  mlir::Value lookUpCodePair(mlir::Value word, int64_t step);
  mlir::Value shift(mlir::Value word, int64_t bits, bool left, bool isSigned);
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type,
                        mlir::ValueRange operands);
  /// Multiplies `factor` and `x` element by element and adds the products of
  /// each 32-bit word, in i32.
  mlir::Value multiplyPairs(mlir::Value factor, mlir::Value x);

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  bool hasAvx512, hasVnni;
  mlir::VectorType wordType, f32s;
  mlir::Value table; ///< Values of the int4 codes; null without AVX-512.
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H
