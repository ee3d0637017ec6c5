//===- ProgramPorts.h - Inputs and outputs of steps -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PROGRAMPORTS_H
#define HEDDLE_DIALECTS_NN_PROGRAMPORTS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/PlanFormat/RunChoices.h"

namespace heddle::nn {

/// The port under which `--dump` writes what nn.keep names.
inline PortAttr portOfKept(KeepOp kept) {
  mlir::MLIRContext *context = kept.getContext();
  llvm::StringRef path = kept.getPath();
  if (path == stringifyPortRole(PortRole::Logits))
    return PortAttr::get(context, PortRole::Logits);
  return PortAttr::get(context, PortRole::Value,
                       mlir::StringAttr::get(context, "value." + path));
}

/// The argument or result of a step that is its port of that role, as a list
/// of ports has it; null when there is none.
inline mlir::Value portOf(mlir::ArrayAttr ports, mlir::ValueRange values,
                          PortRole role) {
  for (auto [port, value] : llvm::zip(ports.getAsRange<PortAttr>(), values))
    if (port.getRole() == role)
      return value;
  return {};
}

/// Whether it is a number that a run says of its updates.
inline bool isRunNumber(PortAttr port) {
  return port.getRole() == PortRole::Value &&
         plan::isRunNumber(std::string_view(port.getKey()));
}

/// Whether the runtime fills such an input.
inline bool isFilled(PortAttr port) {
  switch (port.getRole()) {
  case PortRole::Position:
  case PortRole::Rng:
  case PortRole::LearningRate:
  case PortRole::Pages:
  case PortRole::Hidden:
    return true;
  default:
    return port.isOfBatch() || isRunNumber(port);
  }
}

/// Whether somebody reads such an output.
inline bool isRead(PortAttr port) {
  switch (port.getRole()) {
  case PortRole::Loss:
  case PortRole::LossWeight:
  case PortRole::GradNorm:
  case PortRole::Logits:
  case PortRole::Hidden:
    return true;
  default: // What is kept.
    return port.getRole() == PortRole::Value &&
           port.getKey().starts_with("value.");
  }
}

/// Whether what is written to, or read from, a port has this type. What is kept
/// has any.
inline bool isTypeOf(PortAttr port, mlir::ShapedType type) {
  auto is = [&](bool isElement, int64_t elements) {
    return isElement && type.getNumElements() == elements;
  };
  bool isF32 = type.getElementType().isF32();
  bool isI32 = type.getElementType().isInteger(32);
  switch (port.getRole()) {
  case PortRole::LabelWeights:
    return isF32;
  case PortRole::Rng:
    return is(isI32, 4);
  case PortRole::Position:
    return is(isI32, 1);
  case PortRole::Pages:
    return isI32;
  case PortRole::LearningRate:
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
