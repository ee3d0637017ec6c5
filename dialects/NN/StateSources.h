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

/// Verifies that a state may have the type `type`, and that the expression
/// `source` yields a tensor of that shape; null: the state has no source. If
/// ranks hold shards, `whole` is the type of the whole tensor; null: it is
/// `type`. `packed` is null unless the state is a quantized or packed form of a
/// weight. Then `source` and `whole` describe that weight.
mlir::LogicalResult verifyStored(mlir::Operation *state, mlir::Type type,
                                 SourceAttr source, mlir::TypeAttr whole,
                                 PackedAttr packed);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_STATESOURCES_H
