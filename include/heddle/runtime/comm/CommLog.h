//===- CommLog.h - Counts collectives and messages --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the collectives and messages of a rank by operation, mesh axes and
// size, and adds up their durations. `BINARY train --comms-logger` reports
// them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COMMLOG_H
#define HEDDLE_RUNTIME_COMM_COMMLOG_H

#include "heddle/PlanFormat/Collective.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace heddle::rt {

/// The operations that a CommLog counts together.
struct CommOperation {
  std::string name; ///< A kind of collective, `send` or `receive`.
  std::string axes; ///< The mesh axes of the group, as `data,seq`.
  int64_t ranks = 1;
  /// The size of the data by the convention of NCCL's tests: that of the whole
  /// buffer, as CollectiveShape::count, in the type that is sent.
  int64_t bytes = 0;

  bool operator<(const CommOperation &other) const;
};

/// How often a rank ran an operation, and for how long.
struct CommCount {
  int64_t count = 0;
  /// From the start to the end of the operation, with the time in which this
  /// rank waited for the others. 0 for sends, which nothing waits for.
  double seconds = 0;
};

/// The operations of one rank. Thread-safe.
class CommLog {
public:
  void add(const CommOperation &operation, double seconds);
  /// Adds a collective over a group with these axes.
  void add(const plan::CollectiveShape &shape, const std::string &axes,
           double seconds);
  /// The counts as text, for `summarize`.
  std::string text() const;

private:
  mutable std::mutex mutex;
  std::map<CommOperation, CommCount> counts;
};

/// An operation on all ranks.
struct CommSummary {
  CommOperation operation;
  /// Of the rank that ran the operation most often.
  int64_t count = 0;
  /// The mean over the ranks that ran the operation.
  double seconds = 0;
  /// The rank with the longest time, and this time.
  int64_t slowestRank = 0;
  double slowestSeconds = 0;
  /// The sum over ranks of the time beyond that of the fastest rank: the time
  /// in which ranks waited for the last one to arrive.
  double straggling = 0;

  /// The mean bandwidth in bytes per second, multiplied by the factor of NCCL's
  /// tests, so that it compares with the speed of the slowest link. 0 for
  /// sends.
  double busBandwidth() const;
};

/// Combines the texts of all ranks' logs. The result is ordered by time, the
/// longest first.
std::vector<CommSummary> summarize(const std::vector<std::string> &texts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_COMMLOG_H
