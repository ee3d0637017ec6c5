//===- HeadColumns.cpp - Operations on attention heads of rows ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/HeadColumns.h"
#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;

int64_t nn::headColumnsOf(Operation *op) {
  auto properties = dyn_cast<PropertiesOpInterface>(op);
  if (!properties)
    return 0;
  if (int64_t columns = properties.getHeadColumns())
    return columns;
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    Value heads = reshape.splits() ? reshape.getOutput() : reshape.getInput();
    return cast<RankedTensorType>(heads.getType()).getShape().back();
  }
  if (!op->hasTrait<Rowwise>())
    return 0;
  // The rows of a row-wise operation are heads if they come from an nn.reshape
  // that splits rows into heads, directly or through other row-wise operations.
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!producer || !type || type.getShape() != properties.getDomain())
      continue;
    auto reshape = dyn_cast<ReshapeOp>(producer);
    bool isOfRows = producer->hasTrait<Rowwise>() && !reshape;
    if ((reshape && reshape.splits()) || isOfRows)
      if (int64_t columns = headColumnsOf(producer))
        return columns;
  }
  return 0;
}
