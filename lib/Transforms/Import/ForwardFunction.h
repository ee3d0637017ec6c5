//===- ForwardFunction.h - Facts about a forward function -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of the forward function, which import-derive-programs makes
// programs from.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {

/// Emits H0358 unless the forward function takes one row of tokens and returns
/// their logits.
mlir::LogicalResult verifyForward(nn::FuncOp forward);

/// The logits that the forward function returns.
mlir::Value logitsOf(nn::FuncOp forward);

/// The hidden states, the input of the head: the value that nn.keep names
/// "hidden". Null if there is none.
mlir::Value hiddenOf(nn::FuncOp forward);

/// Whether the operation is a dropout, or attention with dropout.
bool dropsOut(mlir::Operation *op);

/// Whether the model can generate tokens one after the other: attention is
/// causal, and the only input is ids.
bool generates(nn::FuncOp forward);

/// Whether the model is trained to predict masked tokens, as BERT.
bool predictsMasked(nn::ModelOp model);

/// Whether some attention is not causal, so that a token sees those after it.
bool seesWhatFollows(nn::ModelOp model);

/// The operations at the end of a forward function that compute each token by
/// itself. A program that returns the logits of one token computes only that
/// row of them.
struct Head {
  llvm::DenseSet<mlir::Operation *> operations;
  llvm::DenseSet<mlir::Value> inputs; ///< Values of which the row is taken.
};
Head findHead(nn::FuncOp forward);

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
