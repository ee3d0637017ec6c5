//===- Launch.h - All blocks of a launch ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_LAUNCH_H
#define HEDDLE_EMULATOR_PTX_LAUNCH_H

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

/// A launch that was checked.
struct LaunchSetup {
  const Program &program;
  const Launch &launch;
  Dim3 cluster; ///< Blocks of a cluster.
  /// Of a thread, as the text states them; 0 if it does not.
  int64_t entryRegisters = 0;
  const std::map<int64_t, std::string> &files; ///< Of source lines.
  const GlobalMemory &memory;
  const Options &options;
};

/// Runs every block; what went wrong, or "". Adds to `counters` and `touched`,
/// which may be null.
std::string runLaunch(const LaunchSetup &setup, Counters *counters,
                      AccessedRanges *touched);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_LAUNCH_H
