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

/// A sum that an operation computes. `result` is the sum; `operand` is the
/// optional operand to which it is added, empty if absent.
struct Init {
  mlir::MutableOperandRange operand;
  mlir::Value result;
};

/// All sums that the operation computes, including those that it adds to no
/// operand.
llvm::SmallVector<Init> sumsOf(mlir::Operation *op);
/// The sums that the operation computes and adds to an operand.
llvm::SmallVector<Init> initsOf(mlir::Operation *op);

/// A result that a kernel may compute in place of an operand.
struct Tie {
  /// In which cases the fuse phase computes a result in place of an operand. If
  /// the operand is read later, the fuse phase must copy it first, so computing
  /// in place does not always pay.
  enum class Worth {
    Always,
    OfState,    ///< If the operand is a state and the result is its new value.
    OfComputed, ///< If an operation of the same function computes the operand.
  };
  mlir::Value result, operand;
  Worth worth = Worth::Always;
};

/// The ties for an operation that adds sums to operands: each sum may be
/// computed in place of the operand to which it is added.
llvm::SmallVector<Tie> tiesOfInits(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_OPPROPERTIES_H
