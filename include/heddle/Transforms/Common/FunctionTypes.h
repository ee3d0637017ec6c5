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

/// Sets the type of an nn.func or nn.step after its body has changed. The type
/// consists of the types of the entry block's arguments and of the values that
/// the body returns.
template <typename OpT> void updateFunctionType(OpT function) {
  mlir::Block &body = function.getBody().front();
  function.setFunctionType(
      mlir::FunctionType::get(function.getContext(), body.getArgumentTypes(),
                              body.getTerminator()->getOperandTypes()));
}

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_FUNCTIONTYPES_H
