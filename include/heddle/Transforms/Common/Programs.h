//===- Programs.h - Programs, their functions and ports ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_PROGRAMS_H
#define HEDDLE_TRANSFORMS_COMMON_PROGRAMS_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Plan/PlanDialect.h"

namespace heddle {

/// Erases the functions that no step calls, of a model whose programs are
/// steps.
void eraseUncalled(nn::ModelOp model);

/// The runtime fills the inputs of a program and reads its outputs, each once,
/// by their roles. Errors begin with `code`.
mlir::LogicalResult verifyPorts(nn::StepOp step, llvm::StringRef code);
mlir::LogicalResult verifyPorts(planir::SequenceOp sequence,
                                llvm::StringRef code);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_PROGRAMS_H
