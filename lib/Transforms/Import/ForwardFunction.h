//===- ForwardFunction.h - What programs are derived from -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {

/// Reports H0358 unless one row of tokens goes in and their logits come out.
mlir::LogicalResult verifyForward(nn::FuncOp forward);

/// What it returns.
mlir::Value logitsOf(nn::FuncOp forward);

/// What a model without a head gives, which nn.keep names "hidden"; null where
/// nothing does.
mlir::Value hiddenOf(nn::FuncOp forward);

/// Whether an operation takes random numbers.
bool dropsOut(mlir::Operation *op);

/// Whether the tokens that follow can be made one after the other: each is
/// computed from those before it, and from nothing that only data has.
bool generates(nn::FuncOp forward);

/// Whether labels are those of masked tokens.
bool predictsMasked(nn::ModelOp model);

/// Whether a token's attention sees tokens after it.
bool seesWhatFollows(nn::ModelOp model);

/// The operations at the end of a forward function that compute the logits of a
/// token from values of that token, so that one token's are enough where only
/// its logits are asked for.
struct Head {
  llvm::DenseSet<mlir::Operation *> operations;
  llvm::DenseSet<mlir::Value> inputs; ///< Whose row is taken.
};
Head findHead(nn::FuncOp forward);

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
