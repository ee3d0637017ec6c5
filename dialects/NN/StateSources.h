//===- StateSources.h - Verifies sources of states --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_STATESOURCES_H
#define HEDDLE_DIALECTS_NN_STATESOURCES_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// Verifies that `type` is allowed for a state, and that `source`, unless null,
/// gives a tensor of the right shape. `whole` is the type of the tensor over
/// all ranks; null: `type`. For a state that is quantized or packed from a
/// weight, `packed` describes how, and `source` and `whole` are those of the
/// weight.
mlir::LogicalResult verifyStored(mlir::Operation *state, mlir::Type type,
                                 SourceAttr source, mlir::TypeAttr whole,
                                 PackedAttr packed);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_STATESOURCES_H
