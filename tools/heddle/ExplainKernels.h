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
/// memory accesses from the PTX emulator. If `program` is not empty, describes
/// only the kernels of the program of this name, with the number of calls in a
/// run, and predicts its time with `context` positions (see PredictProgram.h).
/// Throws H0384 if the binary has no GPU kernels, and H0113 if there is no such
/// program.
nlohmann::json describeLaunches(const rt::Binary &binary,
                                const std::string &program, int64_t context);

/// Prints the facts of `describeLaunches` as a table.
void printLaunches(const rt::Binary &binary, const std::string &program,
                   int64_t context);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINKERNELS_H
