//===- OpProperties.h - Traits of nn operations -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C++ classes of the traits in NNInterfaces.td, and the types that methods
// of NN_PropertiesOp return. NNDialect.h includes this file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_OPPROPERTIES_H
#define HEDDLE_DIALECTS_NN_OPPROPERTIES_H

#include "mlir/IR/OpDefinition.h"

namespace heddle::nn {

template <typename OpT>
class Elementwise : public mlir::OpTrait::TraitBase<OpT, Elementwise> {};
template <typename OpT>
class Rowwise : public mlir::OpTrait::TraitBase<OpT, Rowwise> {};
template <typename OpT>
class MixesPositions : public mlir::OpTrait::TraitBase<OpT, MixesPositions> {};
template <typename OpT>
class Rematerializable
    : public mlir::OpTrait::TraitBase<OpT, Rematerializable> {};
template <typename OpT>
class InForward : public mlir::OpTrait::TraitBase<OpT, InForward> {};
template <typename OpT>
class Updates : public mlir::OpTrait::TraitBase<OpT, Updates> {};

/// A sum that an operation computes. `result` is the sum. `operand` is the
/// operand from which the sum starts; empty if the sum starts from zero.
struct Init {
  mlir::MutableOperandRange operand;
  mlir::Value result;
};

/// All sums that the operation computes, whether they start from zero or from
/// an operand.
llvm::SmallVector<Init> sumsOf(mlir::Operation *op);
/// The sums of the operation that start from an operand.
llvm::SmallVector<Init> initsOf(mlir::Operation *op);

/// A result that a kernel may write to the memory of an operand.
struct Tie {
  /// In which cases the fuse phase lets a kernel write the result to the
  /// operand's memory. If the operand is read later, the fuse phase must copy
  /// it first, so sharing memory does not always pay.
  enum class Worth {
    Always,
    OfState,    ///< If the operand is a state and the result is its new value.
    OfComputed, ///< If an operation of the same function computes the operand.
  };
  mlir::Value result, operand;
  Worth worth = Worth::Always;
};

/// The ties of an operation with sums that start from operands: a kernel may
/// write each sum to the memory of the operand from which the sum starts.
llvm::SmallVector<Tie> tiesOfInits(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_OPPROPERTIES_H
