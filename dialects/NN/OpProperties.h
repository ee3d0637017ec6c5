//===- OpProperties.h - Traits of nn operations -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The traits of NNInterfaces.td, and what NN_PropertiesOp speaks of.
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

/// What a sum is added to, where that is there, and the result.
struct Init {
  mlir::MutableOperandRange operand;
  mlir::Value result;
};

/// The sums of any operation, with and without an init.
llvm::SmallVector<Init> sumsOf(mlir::Operation *op);
/// Those that are added to something.
llvm::SmallVector<Init> initsOf(mlir::Operation *op);

/// A result that may take the place of an operand.
struct Tie {
  /// Where that is worth it: then a kernel overwrites the operand.
  enum class Worth {
    Always,
    OfState,    ///< Where a state is read: its new value is written.
    OfComputed, ///< Where an operation of the same function makes the operand.
  };
  mlir::Value result, operand;
  Worth worth = Worth::Always;
};

llvm::SmallVector<Tie> tiesOfInits(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_OPPROPERTIES_H
