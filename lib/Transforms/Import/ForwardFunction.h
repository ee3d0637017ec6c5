//===- ForwardFunction.h - Facts about a forward function -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of the forward function, from which import-derive-programs makes
// all programs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {

/// Checks that the forward function takes one row of tokens and returns the
/// logits of these tokens. Emits H0358 otherwise.
mlir::LogicalResult verifyForward(nn::FuncOp forward);

/// The logits that the forward function returns.
mlir::Value logitsOf(nn::FuncOp forward);

/// The hidden states, which the head reads: the value that an nn.keep names
/// "hidden". Null if there is none.
mlir::Value hiddenOf(nn::FuncOp forward);

/// Whether the operation is a dropout, or attention with dropout.
bool dropsOut(mlir::Operation *op);

/// Whether the model can generate tokens one after the other. It can if all
/// attention is causal and ids are the only input.
bool generates(nn::FuncOp forward);

/// Whether the model is trained to predict masked tokens, like BERT.
bool predictsMasked(nn::ModelOp model);

/// Whether any attention is not causal, so that a token attends to later
/// tokens.
bool seesWhatFollows(nn::ModelOp model);

/// The last operations of a forward function, which compute each token
/// independently. A program that returns the logits of one token computes these
/// operations for that token only.
struct Head {
  llvm::DenseSet<mlir::Operation *> operations;
  /// The values that the head reads. A program that returns the logits of one
  /// token takes from them only the row of this token.
  llvm::DenseSet<mlir::Value> inputs;
};
Head findHead(nn::FuncOp forward);

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_FORWARDFUNCTION_H
