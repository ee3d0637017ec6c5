//===- DelayedScalars.h - Numbers of the step before ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_DELAYEDSCALARS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_DELAYEDSCALARS_H

#include "dialects/NN/NNDialect.h"

namespace heddle::train {

/// Scalars that a step uses one step later.
class DelayedScalars {
public:
  /// Returns the value that the scalar `number` had in the previous step, and 0
  /// in the first step. The state `name` stores the scalar between steps.
  mlir::Value delay(mlir::OpBuilder &builder, nn::StepOp step,
                    mlir::Value number, llvm::StringRef name);

  /// Stores the current value of each scalar that was passed to `delay`, for
  /// the next step. The step must have read all old values before these stores.
  void keep(mlir::OpBuilder &builder);

private:
  /// The nn.get that reads the value of the previous step, and the value of
  /// this step.
  llvm::SmallVector<std::pair<nn::GetOp, mlir::Value>> delayed;
};

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_DELAYEDSCALARS_H
