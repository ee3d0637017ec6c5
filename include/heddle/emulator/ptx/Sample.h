//===- Sample.h - Estimates a launch's counts from some blocks --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle explain` counts instructions and memory accesses of kernels with it,
// without running every block.
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

/// Runs blocks of `launch` and counts. All blocks run if they should execute at
/// most `budget` warp instructions. Otherwise the first and the last block run,
/// and one random block from each of equal ranges between them: as many as the
/// budget allows, but at least 30. Their counts are scaled to all blocks
/// between the first and the last. Returns an error message, or "".
std::string countSample(const Module &module, Launch launch,
                        const GlobalMemory &memory, uint64_t budget,
                        SampledCounts &sampled);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SAMPLE_H
