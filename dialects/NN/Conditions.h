//===- Conditions.h - Operations that steps may skip ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conditions of operations: `when` of nn.call, and the attribute `nn.when`
// of other operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_CONDITIONS_H
#define HEDDLE_DIALECTS_NN_CONDITIONS_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// The condition of an operation: `when` of an nn.call, `nn.when` of another
/// operation. The operation is skipped in steps in which the condition is
/// false. Null if the operation is never skipped.
mlir::FlatSymbolRefAttr conditionOf(mlir::Operation *op);
/// The condition of a use of a value: that of the operation, or null if the
/// operation is an nn.call that passes the value on when it is skipped, and
/// some use of the result has another condition.
mlir::FlatSymbolRefAttr conditionOf(mlir::OpOperand &use);
/// The same with conditions that operations do not have yet: `ofOperation`
/// returns the condition of an operation.
mlir::FlatSymbolRefAttr conditionOf(
    mlir::OpOperand &use,
    llvm::function_ref<mlir::FlatSymbolRefAttr(mlir::Operation *)> ofOperation);
/// Sets or, if `condition` is null, removes the condition of an operation that
/// is no nn.call.
void setCondition(mlir::Operation *op, mlir::FlatSymbolRefAttr condition);

/// Checks that the conditions of operations exist, that a value is used only by
/// operations with the condition of the one that computes it, and that all
/// calls of a layer in a step have one condition.
mlir::LogicalResult verifyConditions(ModelOp model);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_CONDITIONS_H
