//===- CpuFeatures.h - What this CPU can do ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H
#define HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H

#include <string>
#include <vector>

namespace heddle::rt {

/// Whether this CPU and its operating system have a feature, by LLVM's name of
/// it (`avx512f`, `amx-bf16`). A name that is not known counts as absent.
bool hasCpuFeature(const std::string &name);

/// Whether the name is one that `hasCpuFeature` can answer for.
bool isKnownCpuFeature(const std::string &name);

/// Throws H0291, naming every missing one, unless this CPU has all `features`;
/// `march` is what the binary was compiled for. Asks the system for the tile
/// registers when they are needed (H0293 when it refuses).
void requireCpuFeatures(const std::vector<std::string> &features,
                        const std::string &march);

/// The model name of this machine's CPU, for people.
std::string cpuName();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_CPUFEATURES_H
