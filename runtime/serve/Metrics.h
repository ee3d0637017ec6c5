//===- Metrics.h - Metrics of a server for Prometheus -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Metrics of a server at /metrics, in Prometheus' text format.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_METRICS_H
#define HEDDLE_RUNTIME_SERVE_METRICS_H

#include "heddle/runtime/serve/Scheduler.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace heddle::rt {

/// Counters and histograms in Prometheus' text format. Thread-safe.
class Metrics {
public:
  Metrics();
  void countRequest(const std::string &path, int status);
  /// Record seconds from a request to its first token, and between two tokens.
  void firstToken(double seconds);
  void betweenTokens(double seconds);
  void update(const Scheduler &scheduler);
  /// Sets the metrics of a server of embeddings, which has no key-value cache.
  /// `newWaiting` texts wait, and `newRunning` texts are being computed.
  void update(const SchedulerCounts &newCounts, int64_t newWaiting,
              int64_t newRunning);
  std::string text() const;

private:
  struct Histogram {
    std::vector<double> bounds;
    std::vector<int64_t> counts = std::vector<int64_t>(bounds.size() + 1);
    double sum = 0;
    void add(double value);
    void write(std::string &text, const char *name, const char *help) const;
  };

  void writeGroups(std::string &text) const;

  mutable std::mutex mutex;
  std::map<std::pair<std::string, int>, int64_t> requests;
  Histogram first, between;
  SchedulerCounts counts;
  /// The numbers of running sequences and of key-value cache pages of a
  /// data-parallel group of ranks.
  struct Group {
    int64_t running = 0, owned = 0, kept = 0, pages = 0;
  };
  int64_t waiting = 0;
  std::vector<Group> groups = std::vector<Group>(1);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_METRICS_H
