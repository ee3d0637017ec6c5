//===- SavedLayouts.h - Attention layouts for checkpoints -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SAVEDLAYOUTS_H
#define HEDDLE_RUNTIME_APP_SAVEDLAYOUTS_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/Checkpoint.h"

namespace heddle::rt {

/// Returns the layouts of block-sparse attention of a plan, as checkpoints keep
/// them.
std::vector<io::LayoutToSave> layoutsOf(const plan::Plan &plan);

/// Returns the line that tells the user where a checkpoint has its layouts.
std::string noteOfLayouts(const std::vector<io::LayoutToSave> &layouts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SAVEDLAYOUTS_H
