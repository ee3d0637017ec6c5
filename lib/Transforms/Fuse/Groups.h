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

/// Returns the code generator (for example the one for matrix products, or for
/// row-wise operations) of a kernel that begins with the operation. Returns
/// nullopt if no kernel may contain such an operation.
std::optional<nn::Generator> generatorOf(mlir::Operation *op);

/// Returns the code generator of a kernel with these operations. If one of them
/// is a matrix product or attention, it decides which code generator is used.
nn::Generator generatorOf(llvm::ArrayRef<mlir::Operation *> members);

/// Returns the fusion rules of the model's target, restricted by the option
/// --fusion. Emits H0245 if this build does not have the target.
mlir::FailureOr<codegen::FusionRules> rulesOf(nn::ModelOp model);

/// Whether an operation adds up the rows of its first operand, so that the
/// result has one element for each column.
bool sumsRows(mlir::Operation *op);

/// Whether an operation adds one vector to another.
bool sumsVector(mlir::Operation *op);

/// Whether a row-wise kernel may compute an operation on vectors anew for each
/// row. It may if only row-wise operations use the result, for example 1 + the
/// weight of a norm.
bool isOfColumns(mlir::Operation *op, const codegen::FusionRules &rules);

/// Returns the reason why a kernel cannot compute `op` after the operations
/// `members`; empty if it can. `members` must not be empty.
std::string refusal(mlir::Operation *op,
                    llvm::ArrayRef<mlir::Operation *> members,
                    const codegen::FusionRules &rules);

/// Returns the reason why `ops` cannot share a kernel that writes the cache,
/// computes attention over it, or does both; empty if they can. The last of
/// them is an nn.paged_attention, after the nn.cache_write of the same tokens
/// or without one, or it is an nn.cache_write. The others compute elements of
/// heads.
std::string refusalOfCacheGroup(llvm::ArrayRef<mlir::Operation *> ops,
                                const codegen::FusionRules &rules);

/// For each result of `op` that is computed in the memory of an operand,
/// returns that operand. Only results for which this saves memory or a copy are
/// listed (see nn::Tie).
llvm::DenseMap<mlir::Value, mlir::Value> tiesOf(mlir::Operation *op);

/// Checks the operands whose memory a launch overwrites with a result. Nothing
/// may read the old value afterwards. The result must be returned from the
/// function, or written to the state from which the operand was read.
mlir::LogicalResult verifyTies(nn::ModelOp model);

/// Checks that all launches agree on the leading dimension of a value. Also
/// checks that a value with padding between rows is written and read only by
/// kernels, and only as the fusion rules allow.
mlir::LogicalResult verifyLeadingDimensions(nn::ModelOp model,
                                            const codegen::FusionRules &rules);

} // namespace heddle::fuse

#endif // HEDDLE_TRANSFORMS_FUSE_GROUPS_H
