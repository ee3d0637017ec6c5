//===- ProgramPorts.h - Inputs and outputs of steps -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A port is an argument or a result of a step program (#nn.port). The emitter
// and the verifiers ask here which ports the runtime fills and which types they
// have.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PROGRAMPORTS_H
#define HEDDLE_DIALECTS_NN_PROGRAMPORTS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/PlanFormat/RunChoices.h"

namespace heddle::nn {

/// The port (the description of an output) for the value of an nn.keep, which
/// `--dump` writes.
inline PortAttr portOfKept(KeepOp kept) {
  mlir::MLIRContext *context = kept.getContext();
  llvm::StringRef path = kept.getPath();
  if (path == stringifyPortRole(PortRole::Logits))
    return PortAttr::get(context, PortRole::Logits);
  return PortAttr::get(context, PortRole::Value,
                       mlir::StringAttr::get(context, "value." + path));
}

/// Finds the value whose entry in `ports` has the role `role`; null if there is
/// none. `values` are the arguments or results of a step; `ports` describes
/// them.
inline mlir::Value portOf(mlir::ArrayAttr ports, mlir::ValueRange values,
                          PortRole role) {
  for (auto [port, value] : llvm::zip(ports.getAsRange<PortAttr>(), values))
    if (port.getRole() == role)
      return value;
  return {};
}

/// Whether the input that `port` describes is a scalar that the update of
/// parameters reads, and that the user of a training run sets by a flag, such
/// as the threshold of gradient clipping.
inline bool isRunNumber(PortAttr port) {
  return port.getRole() == PortRole::Value &&
         plan::isRunNumber(std::string_view(port.getKey()));
}

/// Whether the runtime can provide the value of the program's input that `port`
/// describes: either it computes the value, or it reads the value from the
/// user's data or flags.
inline bool isFilled(PortAttr port) {
  switch (port.getRole()) {
  case PortRole::Position:
  case PortRole::Rng:
  case PortRole::LearningRate:
  case PortRole::LayerScales:
  case PortRole::Pages:
  case PortRole::Hidden:
    return true;
  default:
    return port.isOfBatch() || isRunNumber(port);
  }
}

/// Whether the runtime reads the program's output that `port` describes.
inline bool isRead(PortAttr port) {
  switch (port.getRole()) {
  case PortRole::Loss:
  case PortRole::LossWeight:
  case PortRole::GradNorm:
  case PortRole::TakenRate:
  case PortRole::Logits:
  case PortRole::Hidden:
    return true;
  default: // A value of --dump.
    return port.getRole() == PortRole::Value &&
           port.getKey().starts_with("value.");
  }
}

/// Whether the description `port` of an input or output allows a value of type
/// `type`. For an output that `--dump` writes any type is allowed.
inline bool isTypeOf(PortAttr port, mlir::ShapedType type) {
  auto is = [&](bool isElement, int64_t elements) {
    return isElement && type.getNumElements() == elements;
  };
  bool isF32 = type.getElementType().isF32();
  bool isI32 = type.getElementType().isInteger(32);
  switch (port.getRole()) {
  case PortRole::LabelWeights:
  case PortRole::LayerScales:
    return isF32;
  case PortRole::Rng:
    return is(isI32, 4);
  case PortRole::Position:
    return is(isI32, 1);
  case PortRole::Pages:
    return isI32;
  case PortRole::LearningRate:
    return isF32 && type.getRank() <= 1;
  case PortRole::TakenRate:
  case PortRole::Loss:
  case PortRole::LossWeight:
  case PortRole::GradNorm:
    return is(isF32, 1);
  default:
    if (isRunNumber(port))
      return is(isF32, 1);
    return !port.isOfBatch() || isI32;
  }
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_PROGRAMPORTS_H
