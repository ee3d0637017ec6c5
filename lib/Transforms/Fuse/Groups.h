//===- Groups.h - Rules for which operations share a kernel -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fusion rules, used by `fuse-form-kernels` to form kernels and by
// `fuse-verify` to check them. What differs between targets is in
// codegen::FusionRules.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_FUSE_GROUPS_H
#define HEDDLE_TRANSFORMS_FUSE_GROUPS_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/Common/Target.h"

namespace heddle::fuse {

/// Returns the code generator of a kernel that begins with the operation; none
/// if no kernel contains such an operation.
std::optional<nn::Generator> generatorOf(mlir::Operation *op);

/// Returns the code generator of a kernel of these operations: that of the
/// product if there is one.
nn::Generator generatorOf(llvm::ArrayRef<mlir::Operation *> members);

/// Returns the fusion rules of the model's target, restricted by the fusion
/// policy of its strategy. Emits H0245 if this build has no such target.
mlir::FailureOr<codegen::FusionRules> rulesOf(nn::ModelOp model);

/// Whether an operation sums the rows of its first operand, to one element for
/// each column.
bool sumsRows(mlir::Operation *op);

/// Whether an operation adds one vector to another: a sum of one row.
bool sumsVector(mlir::Operation *op);

/// Whether an operation computes one element for each column, and only row-wise
/// operations use it. Their kernel may then compute it again for each row, as
/// its first operation.
bool isOfColumns(mlir::Operation *op, const codegen::FusionRules &rules);

/// Returns why `op` may not follow `members`, of which there is at least one,
/// in a kernel; empty if it may.
std::string refusal(mlir::Operation *op,
                    llvm::ArrayRef<mlir::Operation *> members,
                    const codegen::FusionRules &rules);

/// Returns by result the operand that it is computed in place of, where that
/// saves memory or a copy (see nn::Tie).
llvm::DenseMap<mlir::Value, mlir::Value> tiesOf(mlir::Operation *op);

/// Checks that nothing reads a value after a launch overwrote it: the result
/// must be written to its state, or returned by the function.
mlir::LogicalResult verifyTies(nn::ModelOp model);

/// Checks that all launches agree on the leading dimension of a value, and that
/// only kernels write and read a value with padding, as the rules allow.
mlir::LogicalResult verifyLeadingDimensions(nn::ModelOp model,
                                            const codegen::FusionRules &rules);

} // namespace heddle::fuse

#endif // HEDDLE_TRANSFORMS_FUSE_GROUPS_H
