//===- Wire.h - The type in which gradients travel --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_WIRE_H
#define HEDDLE_DIALECTS_DIST_WIRE_H

#include "dialects/Dist/Strategy.h"
#include "mlir/IR/Builders.h"

namespace heddle::dist {

/// The type in which gradients travel: the compute precision, unless the user
/// says otherwise.
inline mlir::FloatType wireType(const Strategy &strategy,
                                mlir::Builder builder) {
  llvm::StringRef type = strategy.communicationType.empty()
                             ? strategy.precision
                             : strategy.communicationType;
  if (type == "bf16")
    return builder.getBF16Type();
  if (type == "fp16")
    return builder.getF16Type();
  return builder.getF32Type();
}

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_WIRE_H
