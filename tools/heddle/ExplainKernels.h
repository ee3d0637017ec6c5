//===- ExplainKernels.h - Kernels of GPUs, one by one -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H

#include "heddle/runtime/core/Loader.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// What is known of the launches of each kernel for a GPU: from the plan, from
/// ptxas, computed from both, and counted in the machine that executes PTX.
/// Throws H0384 when the binary holds none.
nlohmann::json describeLaunches(const rt::Binary &binary);

/// The same as a table for people.
void printLaunches(const rt::Binary &binary);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H
