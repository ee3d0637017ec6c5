//===- VerifyShape.h - Verifies shapes of operands --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_VERIFYSHAPE_H
#define HEDDLE_DIALECTS_NN_VERIFYSHAPE_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// Verifies that `value` has the shape `shape`; `what` names it in the message.
mlir::LogicalResult verifyShape(mlir::Operation *op, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape,
                                llvm::StringRef what);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_VERIFYSHAPE_H
