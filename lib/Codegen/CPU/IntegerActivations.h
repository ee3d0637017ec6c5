//===- IntegerActivations.h - Rows as int8 or int16 -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_INTEGERACTIVATIONS_H
#define HEDDLE_LIB_CODEGEN_CPU_INTEGERACTIVATIONS_H

#include "WeightUnpacker.h"

namespace heddle::cpu {

/// Rows of A as whole integers, for units that multiply these. A block of a row
/// has a scale. Where rows are rounded to codes, it is what nn.packed_linear
/// says. Elsewhere it is a power of two, by which the largest element becomes
/// one of 14 bits; so a bf16 of 1/64 of that or more is kept as it is (13 bits
/// and 1/32 for codes of 8 bits without VNNI). Sums of
/// products of such integers and codes are exact in 32 bits: neither their
/// order nor what is computed beside them changes a bit.
class IntegerActivations {
public:
  /// Where a prepared row has its parts: the integers, each an i16 or of one or
  /// two digits of 8 bits, all first digits before the second ones; then the
  /// scales of the blocks; then, in i32, where their sums begin. A block begins
  /// where a group of B does, and has `blockLength` elements; the last one of a
  /// group may be shorter.
  struct Layout {
    explicit Layout(const PackedGemmSpec &spec);
    int64_t groups, groupLength, blockLength;
    int64_t digitsAt, scalesAt, beginsAt; ///< In bytes; of the second digits.
    int64_t blocksOfGroup() const {
      return (groupLength + blockLength - 1) / blockLength;
    }
    /// Elements of the last block of a group.
    int64_t lastLength() const {
      return groupLength - (blocksOfGroup() - 1) * blockLength;
    }
    int64_t bytes() const;
  };

  IntegerActivations(LoopBuilder &builder, const PackedGemmSpec &spec,
                     const WeightUnpacker &unpacker, int64_t lanes);

  const Layout layout;

  /// Makes integers of a row; writes the sums of its groups if `groupSums` is
  /// not null.
  void prepareRow(mlir::Value from, mlir::Value to, mlir::Value groupSums);
  /// Where a row has the scale of a block, and what its sums begin with.
  mlir::Value scaleAt(mlir::Value row, mlir::Value block) {
    return at(row, layout.scalesAt, block);
  }
  mlir::Value beginAt(mlir::Value row, mlir::Value block) {
    return at(row, layout.beginsAt, block);
  }
  /// What the sums of a block's products begin with, in i32.
  mlir::Value beginOfSums(mlir::Value begin);
  /// `sum` + what the sums of a block stand for, in f32; `integers` has one for
  /// each digit.
  mlir::Value addBlock(mlir::Value scale, mlir::ValueRange integers,
                       mlir::Value sum);

private:
  /// What the elements of a block are multiplied by, and then its integers.
  struct Scaling {
    mlir::Value factor, scale;
  };
  Scaling powerOfTwoScaling(mlir::Value largest);
  Scaling int8Scaling(mlir::Value largest);
  mlir::Value prepareBlock(mlir::Value from, mlir::Value to, mlir::Value first,
                           int64_t length, mlir::Value block);
  mlir::Value at(mlir::Value row, int64_t bytes, mlir::Value block);
  mlir::Value largestBits(mlir::Value from, int64_t length);
  LoopBuilder::Values eachVector(
      int64_t length, mlir::ValueRange init,
      llvm::function_ref<LoopBuilder::Values(mlir::Value at, int64_t count,
                                             mlir::ValueRange carried)>
          body);
  mlir::Value loadRow(mlir::Value from, mlir::Value at, int64_t count);
  void storeIntegers(mlir::Value integers, mlir::Value to, int64_t count);
  /// Of a number in a prepared row.
  mlir::Type integerType() const;
  mlir::Value integer(int32_t value);
  mlir::Value real(float value);
  mlir::Value splat(mlir::Value scalar, mlir::VectorType type);

  LoopBuilder &b;
  const PackedGemmSpec &spec;
  const WeightUnpacker &unpacker;
  int64_t lanes;
  mlir::VectorType i32s, f32s;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_INTEGERACTIVATIONS_H
