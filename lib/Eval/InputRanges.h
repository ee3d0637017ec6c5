//===- InputRanges.h - What numbers programs take ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_INPUTRANGES_H
#define HEDDLE_LIB_EVAL_INPUTRANGES_H

#include "heddle/Eval/Interpreter.h"

namespace heddle::eval {

/// H0371 where an input of whole numbers has one that stands for nothing in the
/// module's model, as an id that is no word: it would be the place of something
/// outside a table.
bool checkRanges(mlir::ModuleOp module, const Interpreter &interpreter,
                 const TensorMap &inputs, Diagnostic &error);

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_INPUTRANGES_H
