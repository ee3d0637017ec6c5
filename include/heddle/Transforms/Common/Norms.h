//===- Norms.h - Norms of long gradients ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_NORMS_H
#define HEDDLE_TRANSFORMS_COMMON_NORMS_H

#include "dialects/NN/NNDialect.h"

namespace heddle {

/// Replaces the inputs of a norm by their sums of squares, one sum for each
/// block of elements (nn.square_sums), so that every plan adds in the same
/// order. Does nothing if the inputs are such sums already, or if no input is
/// longer than a block. Returns whether it changed the norm.
bool splitNorm(nn::GlobalNormOp norm);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_NORMS_H
