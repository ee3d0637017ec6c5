//===- Launch.h - Runs all blocks of a launch -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine.cpp checks a launch and calls `runLaunch`, which distributes its
// blocks over threads of the host.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_LAUNCH_H
#define HEDDLE_EMULATOR_PTX_LAUNCH_H

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

/// A launch that has been checked.
struct LaunchSetup {
  const Program &program;
  const Launch &launch;
  Dim3 cluster; ///< Number of blocks of a cluster.
  /// The number of registers that a thread has when it starts, or 0 if the PTX
  /// does not state the number.
  int64_t entryRegisters = 0;
  /// The names of the PTX's source files, by the numbers that the PTX gives
  /// them.
  const std::map<int64_t, std::string> &files;
  const GlobalMemory &memory;
  const Options &options;
};

/// Runs every block of a launch. Returns an error message, or "" if there is no
/// error. Adds counts to `counters` and accessed ranges to `touched`; both may
/// be null.
std::string runLaunch(const LaunchSetup &setup, Counters *counters,
                      AccessedRanges *touched);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_LAUNCH_H
