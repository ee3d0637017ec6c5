//===- Summary.h - What a compilation says at its end -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_SUMMARY_H
#define HEDDLE_LIB_PIPELINES_SUMMARY_H

#include "heddle/Emit/WriteBinary.h"
#include "heddle/Pipelines/Compile.h"

namespace heddle {

/// Prints a line for each plan, with parameters, kernels and memory. After a
/// dry run it also prints how many bytes the parameters, the gradients, the
/// activations and other uses of memory need. Warns if a plan needs more memory
/// than this machine has, unless a cluster file describes the machines that run
/// the plan.
void summarize(llvm::ArrayRef<emit::Code> codes, const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_SUMMARY_H
