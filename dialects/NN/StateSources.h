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

/// Verifies that a state may have the type `type`, and that `source`, the
/// expression by which weight files give the state's tensor, yields the shape
/// of this tensor. `source` may be null. If ranks hold shards of the tensor,
/// `whole` is its type, and `type` that of a shard; otherwise `whole` may be
/// null. If `packed` is not null, the state is a quantized or packed form of a
/// weight, and `source` and `whole` are those of the weight.
mlir::LogicalResult verifyStored(mlir::Operation *state, mlir::Type type,
                                 SourceAttr source, mlir::TypeAttr whole,
                                 PackedAttr packed);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_STATESOURCES_H
