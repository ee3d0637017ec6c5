//===- MemoryHelp.h - Advice for too little memory --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Texts for errors about too little memory, and the names of its uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MEMORYHELP_H
#define HEDDLE_PLANFORMAT_MEMORYHELP_H

#include "heddle/PlanFormat/Plan.h"

#include <string>

namespace heddle::plan {

/// The name of the use of memory as which a state's bytes count, such as
/// "gradients" or "optimizer in host memory" (see Owner). `hasParameter` says
/// whether the state belongs to a parameter.
std::string stateOwner(StateRole role, bool hasParameter, MemoryKind memory);

/// The two uses that need most memory, for an error message: "activations 7.80
/// GiB, optimizer 1.20 GiB".
std::string largestOwners(const Memory &memory);

/// Advice for an error message: flags of `compile` that would reduce the use
/// that needs most memory.
std::string helpForMemory(const Plan &plan);

/// RAM and swap space of this machine, in bytes.
int64_t machineBytes();

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MEMORYHELP_H
