//===- ExplainKernels.h - The GPU kernels of a binary -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle explain --kernels`, which describes each GPU kernel.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H

#include "heddle/runtime/core/Loader.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// Describes the launches of each GPU kernel as JSON: facts from the plan,
/// numbers of registers from ptxas, occupancy, and counts of instructions and
/// memory accesses from the PTX emulator. Throws H0384 if the binary has no GPU
/// kernels.
nlohmann::json describeLaunches(const rt::Binary &binary);

/// Prints the facts of `describeLaunches` as a table.
void printLaunches(const rt::Binary &binary);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H
