//===- Environment.h - Checks the variables of `heddle emulate` -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks HEDDLE_EMULATE and HEDDLE_EMULATE_*. `heddle emulate` reports a wrong
// value before it starts the program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H
#define HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H

#include <string>

namespace heddle::rt::cuda {

/// An error message for a wrong HEDDLE_EMULATE, or for a wrong or unknown
/// variable whose name begins with HEDDLE_EMULATE_; empty if all are accepted.
std::string problemOfEnvironment();

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H
