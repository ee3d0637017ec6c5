//===- StateSources.h - Tensors of files that make a state ------*- C++ -*-===//
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

/// Checks that `type` is one that a state may have, and that a state of it can
/// be made of `source`, which may be null. `whole` is the type over all ranks;
/// null: the same. `packed` says how it is derived of what has these; null: it
/// is not.
mlir::LogicalResult verifyStored(mlir::Operation *state, mlir::Type type,
                                 SourceAttr source, mlir::TypeAttr whole,
                                 PackedAttr packed);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_STATESOURCES_H
