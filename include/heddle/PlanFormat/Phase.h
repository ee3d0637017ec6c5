//===- Phase.h - When a train program of a plan runs ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan may have several train programs over the same states. The phase of a
// train program says in which steps of a run it runs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PHASE_H
#define HEDDLE_PLANFORMAT_PHASE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

/// In which steps a train program runs: from step `fromStep`, counted from 1,
/// to the step before the next phase begins. The number of a step is known
/// before the step begins and equal on all ranks, so all choose one program.
struct Phase {
  std::string name; ///< Empty if the plan has only one train program.
  int64_t fromStep = 1;
};

/// The index of the phase that step `step`, counted from 1, belongs to: the
/// last one that has begun. One of `phases` begins at step 1.
inline size_t phaseAt(const std::vector<Phase> &phases, int64_t step) {
  size_t chosen = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < phases.size(); ++i)
    if (phases[i].fromStep <= step && phases[i].fromStep > begin) {
      chosen = i;
      begin = phases[i].fromStep;
    }
  return chosen;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PHASE_H
