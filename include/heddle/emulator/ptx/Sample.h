//===- Sample.h - Estimates a launch's counts from some blocks --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts instructions and memory accesses of a launch without running every
// block. `heddle explain` uses this to describe kernels.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SAMPLE_H
#define HEDDLE_EMULATOR_PTX_SAMPLE_H

#include "heddle/emulator/ptx/Machine.h"

namespace heddle::emulator {

/// Counts of a launch: exact if all blocks ran, otherwise estimated.
struct SampledCounts {
  Counters counters;
  int64_t blocks = 0;   ///< Number of blocks that ran.
  bool isExact = false; ///< Whether all blocks ran.
};

/// Runs blocks of `launch`, and counts what they execute and access. If the
/// whole launch is expected to execute at most `budget` warp instructions, all
/// blocks run. Otherwise only a sample runs: the first and the last block, and
/// one random block from each of several equal ranges between them. The sample
/// has as many ranges as the budget allows, but at least 30. The counts of
/// these random blocks are scaled to all blocks between the first and the last.
/// Returns an error message, or "".
std::string countSample(const Module &module, Launch launch,
                        const GlobalMemory &memory, uint64_t budget,
                        SampledCounts &sampled);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SAMPLE_H
