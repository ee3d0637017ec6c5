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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

/// At which numbers (of steps, or of updates) a phase runs that shares them
/// with another phase: at the multiples of an interval that is 1 first and
/// doubles again and again.
struct Interval {
  int64_t doubledAfter = 0; ///< 0: the phase runs at every number.
  /// Whether the interval doubles after `doubledAfter` runs of the phase, or
  /// after as many numbers.
  bool countsRuns = false;
  int64_t atMost = 0; ///< The longest interval; 0: there is none.

  bool isSet() const { return doubledAfter > 0; }

  /// Whether a phase from `from` on runs at `number`, which is not before it.
  bool includes(int64_t from, int64_t number) const {
    if (!isSet())
      return true;
    if (!countsRuns) {
      int64_t doubled = std::min<int64_t>((number - from) / doubledAfter, 61);
      return number % limited(int64_t(1) << doubled) == 0;
    }
    int64_t end = from - 1; // The last run with a shorter interval.
    for (int64_t every = 1;;) {
      int64_t begin = (end / every + 1) * every;
      bool isLongest = every == atMost;
      if (number < begin)
        return false;
      if (isLongest || (number - begin + every - 1) / every < doubledAfter)
        return number % every == 0;
      end = begin + (doubledAfter - 1) * every;
      every = limited(2 * every);
    }
  }

private:
  int64_t limited(int64_t every) const {
    return atMost > 0 ? std::min(every, atMost) : every;
  }
};

/// In which steps a train program runs: from step `from`, counted from 1, to
/// the step before the next phase begins. If `countsUpdates` is true, the phase
/// begins with the step that makes update `from` instead, which is a later step
/// if earlier steps were skipped. All phases of a plan count alike. All ranks
/// know both numbers before a step begins, so all choose one program.
///
/// Two phases may begin together: one runs at intervals, the other in between.
struct Phase {
  std::string name; ///< Empty if the plan has only one train program.
  int64_t from = 1;
  bool countsUpdates = false;
  Interval every = {};
  /// The last step or update that the plan has a program for; 0: there is none.
  int64_t to = 0;
};

/// The index of the phase that step `step` belongs to, which is expected to
/// make update `update`; both count from 1. This is the last phase that has
/// begun; of two that begin together, the one with intervals where these
/// include the number. One of `phases` begins at 1.
inline size_t phaseAt(const std::vector<Phase> &phases, int64_t step,
                      int64_t update) {
  size_t chosen = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase &phase = phases[i];
    int64_t now = phase.countsUpdates ? update : step;
    if (phase.from > now || phase.from < begin ||
        (phase.from == begin && !phase.every.isSet()) ||
        !phase.every.includes(phase.from, now))
      continue;
    chosen = i;
    begin = phase.from;
  }
  return chosen;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PHASE_H
