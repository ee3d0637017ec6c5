//===- UpdateCounts.h - How many updates a run has made ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step may skip its update, and the host learns of it only when the
// step has ended. The learning rates and phases of later steps depend on how
// many updates were made.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_UPDATECOUNTS_H
#define HEDDLE_PLANFORMAT_UPDATECOUNTS_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::plan {

/// The number of learning rates that a training step gets. One step may still
/// run when the host submits the next one, and may be skipped, so the next
/// update is one of two. The rate of the update after u updates is at index u
/// modulo this number.
inline constexpr int64_t ratesPerStep = 2;

/// How many updates a run had made when each of its last steps ended. The
/// phases of the next steps follow from these numbers. The host launches a step
/// while up to `ratesPerStep` - 1 steps before it may still run. So that a
/// phase never depends on how fast a rank is, step s uses the number at the end
/// of step s - `ratesPerStep`, and assumes that each step after that one makes
/// its update. If one of these steps is skipped, a phase that counts updates
/// begins at most `ratesPerStep` - 1 updates too early.
class UpdateCounts {
public:
  /// The counts after `steps` steps. `last` has the numbers of updates at the
  /// end of the last steps, the latest first. Earlier steps, and all steps if
  /// `last` is empty, are assumed to have made their updates.
  explicit UpdateCounts(int64_t steps = 0,
                        const std::vector<int64_t> &last = {})
      : steps(steps) {
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = i < last.size() ? last[i]
                  : i == 0        ? steps
                                  : counts[i - 1] - 1;
  }

  /// Adds the next step, at whose end there were `updates` updates.
  void add(int64_t updates) {
    std::copy_backward(counts.begin(), counts.end() - 1, counts.end());
    counts[0] = updates;
    ++steps;
  }

  /// The number of updates at the end of the last step.
  int64_t updates() const { return counts[0]; }

  /// The counts that the phases of the next steps depend on: those at the end
  /// of the last `ratesPerStep` steps, the latest first.
  std::vector<int64_t> last() const {
    return {counts.begin(), counts.end() - 1};
  }

  /// The update that step `step`, counted from 1, is expected to make. `step`
  /// is the last step, or one of the next `ratesPerStep` steps.
  int64_t expected(int64_t step) const {
    return counts.at(size_t(steps + ratesPerStep - step)) + ratesPerStep;
  }

private:
  int64_t steps; ///< The number of steps that have ended.
  /// The count at the end of step `steps` - i is at index i. Before the first
  /// step it is negative: the count at the end of step -1 is -1.
  std::array<int64_t, ratesPerStep + 1> counts;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_UPDATECOUNTS_H
