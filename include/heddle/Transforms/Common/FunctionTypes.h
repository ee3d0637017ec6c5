//===- FunctionTypes.h - Types that follow from bodies ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_FUNCTIONTYPES_H
#define HEDDLE_TRANSFORMS_COMMON_FUNCTIONTYPES_H

#include "dialects/NN/NNDialect.h"

namespace heddle {

/// Gives an nn.func or nn.step the type that its body has now: of its
/// arguments, and of what it returns.
template <typename OpT> void updateFunctionType(OpT function) {
  mlir::Block &body = function.getBody().front();
  function.setFunctionType(
      mlir::FunctionType::get(function.getContext(), body.getArgumentTypes(),
                              body.getTerminator()->getOperandTypes()));
}

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_FUNCTIONTYPES_H
