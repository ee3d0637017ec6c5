//===- ModelVerifier.h - Checks of whole models -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of nn.model that have a file of their own.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_MODELVERIFIER_H
#define HEDDLE_DIALECTS_NN_MODELVERIFIER_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// Checks that the conditions of operations exist, that a value is used only by
/// operations with the condition of the one that computes it, and that all
/// calls of a layer in a step have one condition.
mlir::LogicalResult verifyConditions(ModelOp model);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_MODELVERIFIER_H
