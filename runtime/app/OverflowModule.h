//===- OverflowModule.h - Where a step overflowed ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H
#define HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H

#include "heddle/runtime/app/Job.h"

#include <string>

namespace heddle::rt {

/// Returns the module, such as `h.3.mlp.c_fc`, of the first gradient in the
/// order of the backward pass that is infinite or NaN. Returns "" if there is
/// none, for example because only the loss is, or the norm. Reads the gradients
/// of the last step, so no other step may have begun since. All ranks must call
/// it, and all return the same. Gradients in offload files are left out.
std::string findOverflowModule(Job &job);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H
