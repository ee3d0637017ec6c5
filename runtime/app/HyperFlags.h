//===- HyperFlags.h - Hyperparameters at run time ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_HYPERFLAGS_H
#define HEDDLE_RUNTIME_APP_HYPERFLAGS_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Flags.h"

namespace heddle::rt {

/// Adds the flags of `train` that override hyperparameters of the binary.
void addHyperFlags(CLI::App &verb, HyperOptions &hyper);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_HYPERFLAGS_H
