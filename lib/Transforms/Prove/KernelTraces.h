//===- KernelTraces.h - What traces need to know of kernels -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_KERNELTRACES_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_KERNELTRACES_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::prove {

/// Describes a kernel for the checks: which operands each result is computed
/// from, and which operands hold positions of tokens in a key-value cache.
Kernel describe(planir::KernelOp kernel);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_KERNELTRACES_H
