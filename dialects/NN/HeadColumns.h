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

/// If `op` treats each attention head of each row independently, returns the
/// number of columns of a head; otherwise 0. Heads are independent in three
/// cases. PropertiesOpInterface::getHeadColumns says so. Or `op` is an
/// nn.reshape that splits rows into heads or merges heads into rows. Or `op` is
/// row-wise and its rows are heads, because it follows a reshape that splits
/// rows into heads.
int64_t headColumnsOf(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_HEADCOLUMNS_H
