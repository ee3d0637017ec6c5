//===- FrozenStates.h - Parameters that were frozen -------------*- C++ -*-
//-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_FROZENSTATES_H
#define HEDDLE_RUNTIME_APP_FROZENSTATES_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/Checkpoint.h"

#include <set>
#include <string>

namespace heddle::rt {

/// What stands before the names of a state's tensors in a checkpoint: what the
/// optimizer calls it, which stands behind the parameter's name in its own.
std::string checkpointPrefix(const plan::State &state);

/// The parameters of which the checkpoint has nothing that the optimizer keeps,
/// while it has all of that of others: they were frozen.
std::set<std::string> frozenIn(const io::Checkpoint &checkpoint,
                               const plan::Plan &plan);

/// Says that the optimizer begins anew for these parameters.
void warnOfFrozen(const std::set<std::string> &frozen);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_FROZENSTATES_H
