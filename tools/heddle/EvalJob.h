//===- EvalJob.h - Runs heddle eval -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of `heddle eval` that uses MLIR: it reads a module and executes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EVALJOB_H
#define HEDDLE_TOOLS_HEDDLE_EVALJOB_H

#include "heddle/Eval/EvalOptions.h"

namespace heddle::driver {

/// Reads a module, runs the verifier of the compiler phase that wrote it, and
/// executes it with the reference interpreter. Prints diagnostics, and returns
/// the exit status. Throws no exception.
int runEvalJob(const eval::EvalOptions &options);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EVALJOB_H
