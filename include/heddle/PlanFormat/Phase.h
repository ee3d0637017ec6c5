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

/// In which steps a train program runs: from step `from`, counted from 1, to
/// the step before the next phase begins. If `countsUpdates` is true, the phase
/// begins with the step that makes update `from` instead, which is a later step
/// if earlier steps were skipped. All phases of a plan count alike. All ranks
/// know both numbers before a step begins, so all choose one program.
struct Phase {
  std::string name; ///< Empty if the plan has only one train program.
  int64_t from = 1;
  bool countsUpdates = false;
};

/// The index of the phase that step `step` belongs to, which is expected to
/// make update `update`; both count from 1. This is the last phase that has
/// begun. One of `phases` begins at 1.
inline size_t phaseAt(const std::vector<Phase> &phases, int64_t step,
                      int64_t update) {
  size_t chosen = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    int64_t now = phases[i].countsUpdates ? update : step;
    if (phases[i].from <= now && phases[i].from > begin) {
      chosen = i;
      begin = phases[i].from;
    }
  }
  return chosen;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PHASE_H
