//===- HeadColumns.h - Operations on attention heads ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_HEADCOLUMNS_H
#define HEDDLE_DIALECTS_NN_HEADCOLUMNS_H

#include "mlir/IR/Operation.h"

namespace heddle::nn {

/// The number of columns of an attention head, if `op` treats each head of each
/// row independently; otherwise 0. That is so if
/// PropertiesOpInterface::getHeadColumns says it, if `op` is an nn.reshape that
/// splits rows into heads or merges them, or if it is row-wise between two of
/// these, so that its rows are heads.
int64_t headColumnsOf(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_HEADCOLUMNS_H
