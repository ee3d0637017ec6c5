//===- Wire.h - The element type in which gradients are sent ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_WIRE_H
#define HEDDLE_DIALECTS_DIST_WIRE_H

#include "dialects/Dist/ComputeType.h"
#include "dialects/Dist/Strategy.h"
#include "mlir/IR/Builders.h"

namespace heddle::dist {

/// The floating-point type in which the model computes, by the settings of the
/// compilation (`strategy`).
inline mlir::FloatType computeType(const Strategy &strategy,
                                   mlir::Builder builder) {
  return computeType(strategy.precision).get(builder.getContext());
}

/// The element type in which gradients are sent between ranks (DeepSpeed:
/// `communication_data_type`). It is the precision in which the model computes,
/// unless the user chose another.
inline mlir::FloatType wireType(const Strategy &strategy,
                                mlir::Builder builder) {
  for (const ComputeType &type : computeTypes())
    if (type.communication == strategy.communicationType)
      return type.get(builder.getContext());
  return computeType(strategy, builder);
}

/// The value for the attribute `wire` of a reshard of gradients: the element
/// type in which they are sent. It is `wireType`, or null if `wireType` is f32,
/// because that is the default.
inline mlir::TypeAttr gradientWire(const Strategy &strategy,
                                   mlir::Builder builder) {
  mlir::FloatType type = wireType(strategy, builder);
  return type.isF32() ? mlir::TypeAttr() : mlir::TypeAttr::get(type);
}

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_WIRE_H
