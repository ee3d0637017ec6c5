//===- PtxResources.h - Register counts from ptxas --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_PTXRESOURCES_H
#define HEDDLE_TOOLS_HEDDLE_PTXRESOURCES_H

#include <cstdint>
#include <map>
#include <string>

namespace heddle::driver {

/// Returns the number of registers of a thread for each function in a PTX
/// module, as ptxas assigns them. The map is empty if ptxas is missing or
/// rejects the module.
std::map<std::string, int64_t> registersOf(const std::string &ptx,
                                           const std::string &chip);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_PTXRESOURCES_H
