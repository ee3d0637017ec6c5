//===- Sums.h - What the results of sums are added to -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SUMS_H
#define HEDDLE_DIALECTS_NN_SUMS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/TypeSwitch.h"

namespace heddle::nn {

/// What the sums that an operation makes are added to: the operand, where it is
/// there, and the result.
inline llvm::SmallVector<std::pair<mlir::MutableOperandRange, mlir::Value>>
initsOf(mlir::Operation *op) {
  llvm::SmallVector<std::pair<mlir::MutableOperandRange, mlir::Value>> inits;
  auto add = [&](mlir::MutableOperandRange init, mlir::Value result) {
    if (init.size() > 0)
      inits.push_back({init, result});
  };
  llvm::TypeSwitch<mlir::Operation *>(op)
      .Case<EmbeddingGradOp, LinearGradWeightOp, SumRowsOp, RmsNormGradWeightOp,
            SumOp>(
          [&](auto sum) { add(sum.getInitMutable(), sum.getOutput()); })
      .Case([&](LayerNormGradWeightOp grad) {
        add(grad.getWeightInitMutable(), grad.getWeightGrad());
        add(grad.getBiasInitMutable(), grad.getBiasGrad());
      });
  return inits;
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_SUMS_H
