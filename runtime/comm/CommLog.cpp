//===- CommLog.cpp - Counts collectives and messages ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/CommLog.h"

#include <algorithm>
#include <sstream>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;

bool CommOperation::operator<(const CommOperation &other) const {
  return std::tie(name, axes, ranks, bytes) <
         std::tie(other.name, other.axes, other.ranks, other.bytes);
}

void CommLog::add(const CommOperation &operation, double seconds) {
  std::lock_guard<std::mutex> lock(mutex);
  CommCount &count = counts[operation];
  count.count += 1;
  count.seconds += seconds;
}

void CommLog::add(const plan::CollectiveShape &shape, const std::string &axes,
                  double seconds) {
  add({plan::nameOf(shape.kind), axes, shape.ranks,
       shape.count * plan::byteSize(shape.wire)},
      seconds);
}

std::string CommLog::text() const {
  std::lock_guard<std::mutex> lock(mutex);
  std::ostringstream text;
  text.precision(17);
  for (const auto &[operation, count] : counts)
    text << operation.name << ' ' << operation.axes << ' ' << operation.ranks
         << ' ' << operation.bytes << ' ' << count.count << ' ' << count.seconds
         << '\n';
  return text.str();
}

double CommSummary::busBandwidth() const {
  if (seconds <= 0)
    return 0;
  auto ranks = double(operation.ranks);
  double factor = (ranks - 1) / ranks;
  if (operation.name == plan::nameOf(plan::CollectiveKind::AllReduce))
    factor *= 2;
  else if (operation.name == "receive" ||
           operation.name == plan::nameOf(plan::CollectiveKind::Rotate))
    factor = 1;
  return factor * double(operation.bytes) * double(count) / seconds;
}

namespace {

/// The counts of one operation on all ranks that ran it.
struct RankCounts {
  std::vector<std::pair<int64_t, CommCount>> ranks;
  CommSummary summary(const CommOperation &operation) const;
};

} // namespace

CommSummary RankCounts::summary(const CommOperation &operation) const {
  CommSummary result;
  result.operation = operation;
  double fastest = ranks.front().second.seconds, sum = 0;
  result.slowestRank = ranks.front().first;
  for (const auto &[rank, count] : ranks) {
    result.count = std::max(result.count, count.count);
    sum += count.seconds;
    fastest = std::min(fastest, count.seconds);
    if (count.seconds > result.slowestSeconds) {
      result.slowestRank = rank;
      result.slowestSeconds = count.seconds;
    }
  }
  result.seconds = sum / double(ranks.size());
  result.straggling = sum - fastest * double(ranks.size());
  return result;
}

std::vector<CommSummary>
heddle::rt::summarize(const std::vector<std::string> &texts) {
  std::map<CommOperation, RankCounts> all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    std::istringstream text(texts[rank]);
    CommOperation operation;
    CommCount count;
    while (text >> operation.name >> operation.axes >> operation.ranks >>
           operation.bytes >> count.count >> count.seconds)
      all[operation].ranks.emplace_back(rank, count);
  }
  std::vector<CommSummary> result;
  for (const auto &[operation, counts] : all)
    result.push_back(counts.summary(operation));
  std::stable_sort(result.begin(), result.end(),
                   [](const CommSummary &a, const CommSummary &b) {
                     return a.seconds > b.seconds;
                   });
  return result;
}
