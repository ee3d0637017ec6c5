//===- Sample.h - What a launch does, from some blocks ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SAMPLE_H
#define HEDDLE_EMULATOR_PTX_SAMPLE_H

#include "heddle/emulator/ptx/Machine.h"

namespace heddle::emulator {

/// What a launch does: counted when all of its blocks ran, estimated otherwise.
struct SampledCounts {
  Counters counters;
  int64_t blocks = 0;   ///< That ran.
  bool isExact = false; ///< All of them.
};

/// Runs the blocks of `launch`: all if that should take no more than `budget`
/// instructions of warps, else the first, the last and one at random out of
/// each of equal parts of the others, as many as the budget allows and 30 at
/// least. The counts of those between stand for all between. Returns what went
/// wrong, or "".
std::string countSample(const Module &module, Launch launch,
                        const GlobalMemory &memory, uint64_t budget,
                        SampledCounts &sampled);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SAMPLE_H
