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

/// Erases the functions that no step calls, directly or indirectly. All
/// programs of the model must be steps (nn.step), because functions without
/// callers are erased.
void eraseUncalled(nn::ModelOp model);

/// Adds an input to a step: an argument of type `type` that the runtime writes
/// before the step, as `port` says. Returns the argument.
mlir::Value addInput(nn::StepOp step, nn::PortAttr port,
                     mlir::RankedTensorType type);

/// Checks the ports (inputs and outputs) of a program. Each port has a role, by
/// which the runtime knows how to fill an input and what to do with an output.
/// No port may occur twice. Errors begin with `code`.
mlir::LogicalResult verifyPorts(nn::StepOp step, llvm::StringRef code);
mlir::LogicalResult verifyPorts(planir::SequenceOp sequence,
                                llvm::StringRef code);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_PROGRAMS_H
