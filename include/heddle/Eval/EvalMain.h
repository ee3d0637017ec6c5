//===- EvalMain.h - The verb heddle eval ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_EVALMAIN_H
#define HEDDLE_EVAL_EVALMAIN_H

#include "heddle/Eval/EvalOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::eval {

/// Executes a program of the module and prints its outputs. Input tensors are
/// named by port; of `NAME@2` and `NAME` the second step takes the first that
/// is there. Learning rate, bias corrections and random-number state come from
/// the module's strategy unless they are among the inputs. The output file
/// holds the outputs of the last step, `loss@1`, `loss@2` ... of all of them,
/// and every state as `state.NAME`. Returns the exit status; what the context's
/// handler was told of is not printed again.
int evalModule(mlir::ModuleOp module, const EvalOptions &options);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALMAIN_H
