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

/// The columns of a head, where the operation works on each head of each row by
/// itself: as PropertiesOpInterface::getHeadColumns says, or between two
/// reshapes, of which the first makes rows of heads, and the second rows of
/// them again. Else 0.
int64_t headColumnsOf(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_HEADCOLUMNS_H
