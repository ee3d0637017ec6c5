//===- EvalMain.h - The verb `heddle eval` ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes a verified module for `heddle eval`. tools/heddle/EvalJob.cpp calls
// it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_EVALMAIN_H
#define HEDDLE_EVAL_EVALMAIN_H

#include "heddle/Eval/EvalOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::eval {

/// Executes programs of the module and prints their outputs. Input tensors have
/// the names of ports. In step N the tensor `NAME@N`, if it exists, is the
/// input instead of `NAME`. Learning rate, bias corrections and the state of
/// the random generator are computed from the module's strategy, unless they
/// are given as inputs.
///
/// The output file gets the outputs of the last step, `loss@1`, `loss@2` ... of
/// all steps, and every state as `state.NAME`. Returns the exit status. Errors
/// that the context's diagnostic handler has printed are not printed again.
int evalModule(mlir::ModuleOp module, const EvalOptions &options);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALMAIN_H
