//===- WeightUnpacker.h - Unpacks int4 and int8 weights ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H
#define HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H

#include "PackedGemm.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// How words of 32 bits become factors of a product: vectors of f32, of pairs
/// of bf16 where the target multiplies these, or of whole numbers.
class WeightUnpacker {
public:
  /// Whether rows are whole numbers. Codes of 4 bits are multiplied as pairs of
  /// bf16 where the target does that, but for AMX, which multiplies bytes.
  static bool usesIntegers(const PackedGemmSpec &spec, const CpuTarget &target);

  /// With `inDigits`, whole numbers of 16 bits become two of 8, which take two
  /// sums, but half as many factors.
  WeightUnpacker(LoopBuilder &builder, const PackedGemmSpec &spec,
                 const CpuTarget &target, bool inDigits);

  /// Words of an output, over all of K.
  int64_t count() const { return (spec.k + perWord - 1) / perWord; }
  /// Factors that a word gives, which follow each other along K.
  int64_t steps() const {
    return isInteger ? elementBits / spec.bits : dot ? perWord / 2 : perWord;
  }
  /// With whole numbers, the inputs of a word in the order in which its factors
  /// have them.
  llvm::SmallVector<int64_t> orderOfInputs() const;
  /// What is added to each code of a factor, so that it needs no sign.
  int64_t codeOffset() const { return isInteger ? 1 << (spec.bits - 1) : 0; }

  /// What `factor` takes of a vector of words.
  mlir::Value prepare(mlir::Value word);
  /// Factor `step` of a vector of words. Codes are whole numbers.
  mlir::Value factor(mlir::Value prepared, int64_t step);
  /// x * factor + sum in f32; x is a vector of f32 or of pairs of bf16 as i32.
  /// With whole numbers the sum is in i32, and x has as many of them as a
  /// factor has codes.
  mlir::Value multiplyAdd(mlir::Value x, mlir::Value factor, mlir::Value sum);

  bool isInteger; ///< Rows are whole numbers.
  int64_t digits; ///< Of each, the lowest first; else 1.
  int64_t
      elementBits; ///< Bits that a digit has in a row, and a code in a factor.
  /// Bits of the largest number of a block of a row. With a code of 8 bits,
  /// products of 256 fit in 32. Without VNNI two products of a digit and a code
  /// of 8 bits have to fit in 16.
  int64_t activationBits;
  int64_t digitBits; ///< A digit is worth 2 to this of the one before.
  bool dot;          ///< A factor is of two bf16.
  int64_t perWord;

private:
  mlir::Value unpackCode(mlir::Value word, int64_t index);
  mlir::Value unsignedCodes(mlir::Value word, int64_t step);
  mlir::Value replicateCode(int64_t code, int64_t bits);
  mlir::Value lookUpCode(mlir::Value word, int64_t index);
  mlir::Value lookUpCodePair(mlir::Value word, int64_t step);
  mlir::Value shift(mlir::Value word, int64_t bits, bool left, bool isSigned);
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type,
                        mlir::ValueRange operands);
  /// factor * x in i32, added up within a word.
  mlir::Value multiplyPairs(mlir::Value factor, mlir::Value x);

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  bool hasAvx512, hasVnni;
  mlir::VectorType wordType, f32s;
  mlir::Value table; ///< Of what codes of 4 bits are, where it can be one.
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_WEIGHTUNPACKER_H
