//===- Environment.h - What emulated GPUs are to be like --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H
#define HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H

#include <string>

namespace heddle::rt::cuda {

/// What is wrong with HEDDLE_EMULATE or a variable whose name begins with
/// HEDDLE_EMULATE_, for people; empty when the emulated driver takes them all.
std::string problemOfEnvironment();

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_ENVIRONMENT_H
