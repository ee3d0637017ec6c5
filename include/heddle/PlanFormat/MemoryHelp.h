//===- MemoryHelp.h - What makes a plan smaller -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MEMORYHELP_H
#define HEDDLE_PLANFORMAT_MEMORYHELP_H

#include "heddle/PlanFormat/Plan.h"

#include <string>

namespace heddle::plan {

/// The two owners of most bytes, as "activations 7.80 GiB, optimizer 1.20 GiB".
std::string largestOwners(const Memory &memory);

/// What to change for a plan that a machine has too little memory for: flags of
/// `compile` that make the largest owner of bytes smaller.
std::string helpForMemory(const Plan &plan);

/// Memory and swap space of this machine, in bytes.
int64_t machineBytes();

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MEMORYHELP_H
