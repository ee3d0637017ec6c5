//===- IntegerActivations.h - Rows as int8 or int16 -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds rows of activations to integers, for products with int4 and int8
// quantized weights on integer instructions (VNNI, AMX, pmaddwd).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_INTEGERACTIVATIONS_H
#define HEDDLE_LIB_CODEGEN_CPU_INTEGERACTIVATIONS_H

#include "WeightUnpacker.h"

namespace heddle::cpu {

/// Emits code that converts rows of A to integers. Each block of a row has its
/// own scale:
///  - int8 activations (`PackedGemmSpec::inputBlock` > 0): the scale that
///    nn.packed_linear defines, by which the block's largest magnitude becomes
///    127.
///  - Otherwise a power of two, by which the block's largest magnitude becomes
///    an integer of 14 bits. Then a bf16 element is represented exactly if its
///    magnitude is at least 1/64 of the largest one, and an fp16 element from
///    1/8 on. With int8 weights and without VNNI there are only 13 bits, and
///    the limits are 1/32 and 1/4.
/// Sums of products of these integers and the weight's codes fit in 32 bits and
/// are exact, so the order of the sum cannot change the result.
class IntegerActivations {
public:
  /// The memory layout of a prepared row, with offsets in bytes:
  ///  - the integers: i16, or two 8-bit digits for each (see WeightUnpacker.h),
  ///    all low digits before all high digits (at `digitsAt`);
  ///  - at `scalesAt`, the scale of each block, f32;
  ///  - at `beginsAt`, the initial value of each block's sums, i32: it undoes
  ///    the offset that makes codes unsigned (`WeightUnpacker::codeOffset`).
  /// Each group (elements whose weights have a common scale) has whole blocks
  /// of `blockLength` elements, except that its last block may be shorter.
  struct Layout {
    explicit Layout(const PackedGemmSpec &spec);
    int64_t groups, groupLength, blockLength;
    int64_t digitsAt, scalesAt, beginsAt;
    int64_t blocksOfGroup() const {
      return (groupLength + blockLength - 1) / blockLength;
    }
    /// The number of elements in the last block of a group (elements whose
    /// weights have a common scale).
    int64_t lastLength() const {
      return groupLength - (blocksOfGroup() - 1) * blockLength;
    }
    int64_t bytes() const;
  };

  IntegerActivations(LoopBuilder &builder, const PackedGemmSpec &spec,
                     const WeightUnpacker &unpacker, int64_t lanes);

  const Layout layout;

  /// Converts the row at `from` and writes it to `to`. If `groupSums` is not
  /// null, writes one f32 there for each group of weights with a common scale:
  /// the sum of the elements that are multiplied by this group.
  void prepareRow(mlir::Value from, mlir::Value to, mlir::Value groupSums);
  /// The addresses, in the prepared row `row` (a row of A as integers), of the
  /// scale of a block and of the initial value of the block's sums.
  mlir::Value scaleAt(mlir::Value row, mlir::Value block) {
    return at(row, layout.scalesAt, block);
  }
  mlir::Value beginAt(mlir::Value row, mlir::Value block) {
    return at(row, layout.beginsAt, block);
  }
  /// Loads the initial value of a block's sums (see `Layout`) from the address
  /// `begin`, as a vector of i32 with this value in all lanes.
  mlir::Value beginOfSums(mlir::Value begin);
  /// Returns `sum` plus the integer sums of a block multiplied by the block's
  /// scale, in f32. `integers` has one vector of i32 sums, or two if
  /// activations are split into two digits. `scale` is the address of the
  /// scale.
  mlir::Value addBlock(mlir::Value scale, mlir::ValueRange integers,
                       mlir::Value sum);

private:
  /// The scaling of a block of activations. An element times `factor` is
  /// rounded to an integer; the integer times `scale` approximates the element.
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
  /// The type of the numbers that a prepared row stores: integers of 16 or 8
  /// bits, or 8-bit digits if 16-bit integers are split into two digits each.
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
