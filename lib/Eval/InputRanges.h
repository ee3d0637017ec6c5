//===- InputRanges.h - Checks the range of integer inputs -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the values of integer inputs before a program runs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_INPUTRANGES_H
#define HEDDLE_LIB_EVAL_INPUTRANGES_H

#include "heddle/Eval/Interpreter.h"

namespace heddle::eval {

/// Reports H0371 and returns false if an integer input has a value that is out
/// of range for the model, for example an id that is not in the vocabulary.
/// Such a value would index a table out of bounds.
bool checkRanges(mlir::ModuleOp module, const Interpreter &interpreter,
                 const TensorMap &inputs, Diagnostic &error);

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_INPUTRANGES_H
