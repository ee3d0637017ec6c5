//===- ParameterNumbers.h - Numbers of each parameter -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERNUMBERS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERNUMBERS_H

#include "Optimizers/Optimizers.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::train {

/// Builds what an optimizer computes once for each parameter of a group. These
/// numbers are vectors with an element for each member of the group's buckets.
class ParameterNumbers {
public:
  /// `values` is the group's bucket of parameters, whose members are the
  /// segments of flat tensors. States are written if `condition` is not 0.
  ParameterNumbers(mlir::OpBuilder &builder, nn::BucketOp values,
                   mlir::Value condition);

  /// Reads the numbers of a bucket of states of rank 0, as they are before the
  /// step.
  mlir::Value read(nn::BucketOp bucket);
  void write(nn::BucketOp bucket, mlir::Value numbers);
  /// Reduces the elements of each parameter in the flat tensor `flat`.
  mlir::Value reduce(Reduction::Kind kind, mlir::Value flat);
  /// The root of the mean square of the elements of each parameter; 0 if the
  /// condition is 0.
  mlir::Value rootMeanSquare(mlir::Value flat);
  /// Multiplies the elements of each parameter by a number.
  mlir::Value scale(mlir::Value flat, mlir::Value numbers);

  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      nn::Scalars &, llvm::ArrayRef<mlir::Value>)>;
  /// Computes numbers from numbers. A result that is an operand itself is
  /// returned as this operand.
  llvm::SmallVector<mlir::Value> compute(mlir::ValueRange operands, Body body);

  /// Erases reads whose values nothing uses.
  void eraseUnread();

private:
  /// The flat tensor of a bucket, which is read once: a write may overwrite it
  /// in place.
  mlir::Value flat(nn::BucketOp bucket);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::RankedTensorType type;
  mlir::FlatSymbolRefAttr segments;
  mlir::Value condition;
  llvm::MapVector<mlir::Operation *, nn::GetOp> flats;
  llvm::MapVector<mlir::Operation *, nn::ReadNumbersOp> reads;
};

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERNUMBERS_H
