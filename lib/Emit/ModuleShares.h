//===- ModuleShares.h - The work of kernels by module -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EMIT_MODULESHARES_H
#define HEDDLE_LIB_EMIT_MODULESHARES_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/ModuleShare.h"

#include <string>
#include <vector>

namespace heddle::emit {

/// Returns the names of modules in a location, without duplicates, in order.
std::vector<std::string> moduleNamesOf(mlir::Location loc);

/// Divides the work of a kernel among the modules that the locations of its
/// operations name. The shares are in the order of the names that
/// moduleNamesOf returns for the locations of all operations. An operation
/// whose location names no module belongs to the first module. There is at
/// least one share.
std::vector<plan::ModuleShare> sharesOf(planir::KernelOp kernel);

/// Whether a kernel belongs to the update of a step: whether it updates
/// parameters or states of the optimizer, or only computes what updates need,
/// such as the norm of the gradients.
bool isOfUpdate(planir::KernelOp kernel);

/// The model FLOPs of the blocks that layouts of attention leave out of a
/// kernel.
double flopsLeftOut(planir::KernelOp kernel);

} // namespace heddle::emit

#endif // HEDDLE_LIB_EMIT_MODULESHARES_H
