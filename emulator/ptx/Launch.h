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
  Dim3 cluster; ///< Size of a cluster in blocks.
  /// Registers of a thread that the PTX states; 0 if it states none.
  int64_t entryRegisters = 0;
  /// Names of source files, by number.
  const std::map<int64_t, std::string> &files;
  const GlobalMemory &memory;
  const Options &options;
};

/// Runs every block. Returns an error message, or "". Adds to `counters` and
/// `touched`, which may be null.
std::string runLaunch(const LaunchSetup &setup, Counters *counters,
                      AccessedRanges *touched);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_LAUNCH_H
