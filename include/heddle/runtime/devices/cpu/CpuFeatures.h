//===- CpuFeatures.h - Features of this machine's CPU -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells whether this machine's CPU has the features that a binary needs. A
// binary checks this when it starts.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H
#define HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H

#include <string>
#include <vector>

namespace heddle::rt {

/// Whether this CPU and its operating system have a feature. `name` is LLVM's
/// name of the feature (`avx512f`, `amx-bf16`). An unknown name counts as a
/// missing feature.
bool hasCpuFeature(const std::string &name);

/// Whether `name` is a feature that `hasCpuFeature` knows.
bool isKnownCpuFeature(const std::string &name);

/// Throws H0291, with the names of all missing features, unless this CPU has
/// all of `features`. `march` is the CPU for which the binary was compiled, and
/// is named in the message. If AMX is needed, also requests its tile registers
/// from the operating system. Throws H0293 if the system refuses them.
void requireCpuFeatures(const std::vector<std::string> &features,
                        const std::string &march);

/// The CPU's model name, for messages.
std::string cpuName();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H
