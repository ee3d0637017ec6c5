//===- Groups.h - What may be in one kernel ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_FUSE_GROUPS_H
#define HEDDLE_TRANSFORMS_FUSE_GROUPS_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/Common/Target.h"

namespace heddle::fuse {

/// Which generator makes the code of a kernel that begins with the operation;
/// none: a kernel holds no such operation.
std::optional<nn::Generator> generatorOf(mlir::Operation *op);

/// The same of a kernel of these operations: that of a product, if it has one.
nn::Generator generatorOf(llvm::ArrayRef<mlir::Operation *> members);

/// The rules of the target of the model's strategy, as far as its policy of
/// fusion leaves them. Reports H0245 when this
/// build has no such target.
mlir::FailureOr<codegen::FusionRules> rulesOf(nn::ModelOp model);

/// Whether an operation sums rows: those of its first operand, to one element
/// for each column.
bool sumsRows(mlir::Operation *op);

/// Whether an operation adds a vector to another one: the sum of one row.
bool sumsVector(mlir::Operation *op);

/// Whether an operation makes one element for each column, for row-wise
/// operations alone: the kernel of these may make it again for each
/// row. It then stands before all others there.
bool isOfColumns(mlir::Operation *op, const codegen::FusionRules &rules);

/// Why `op` may not stand in a kernel behind `members`, of which there is at
/// least one, or "".
std::string refusal(mlir::Operation *op,
                    llvm::ArrayRef<mlir::Operation *> members,
                    const codegen::FusionRules &rules);

/// Which result takes the place of which operand, where that is worth it (see
/// nn::Tie).
llvm::DenseMap<mlir::Value, mlir::Value> tiesOf(mlir::Operation *op);

/// Checks that what a launch overwrites is read by nothing afterwards: it goes
/// back to its state, or out of the function, as the result.
mlir::LogicalResult verifyTies(nn::ModelOp model);

/// Checks that all launches agree on where a value's rows begin, and that only
/// kernels make and read one that has gaps between them, as the rules allow.
mlir::LogicalResult verifyPitches(nn::ModelOp model,
                                  const codegen::FusionRules &rules);

} // namespace heddle::fuse

#endif // HEDDLE_TRANSFORMS_FUSE_GROUPS_H
