//===- Sources.h - Where the elements of states come from -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SOURCES_H
#define HEDDLE_DIALECTS_NN_SOURCES_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// Whether a state of the type `whole`, over all ranks, can be made of `source`;
/// null fits any.
mlir::LogicalResult verifySource(mlir::Operation *state, SourceAttr source,
                                 mlir::RankedTensorType whole);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_SOURCES_H
