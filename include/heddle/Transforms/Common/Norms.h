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

/// Makes of a norm, if one of its inputs has more than one block of
/// nn.square_sums, a norm of the sums of squares of all blocks: one order of
/// summation in all plans. Returns whether it did; a norm that is one of sums
/// already, or of a few elements, stays as it is.
bool splitNorm(nn::GlobalNormOp norm);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_NORMS_H
