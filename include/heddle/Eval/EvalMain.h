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

/// Executes programs of the module and prints their outputs. The tensors of the
/// input file have the names of the programs' inputs. In step N the tensor
/// `NAME@N`, if it exists, is the input instead of `NAME`. The learning rate,
/// the weight decay, the threshold of gradient clipping and the state of the
/// random generator may be absent from the input file. They are then computed
/// from the seed and the module's strategy (its settings).
///
/// The output file gets the outputs of the last step, the scalar outputs of
/// every step (`loss@1`, `loss@2`, ...), and every state as `state.NAME`.
/// Returns the exit status. Errors that the context's diagnostic handler has
/// printed are not printed again.
int evalModule(mlir::ModuleOp module, const EvalOptions &options);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALMAIN_H
