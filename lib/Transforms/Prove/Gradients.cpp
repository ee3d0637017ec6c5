//===- Gradients.cpp - Checks offloaded gradients -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkGradients`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <list>
#include <vector>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// A range of bytes, and the command that wrote it.
struct WrittenRange {
  Range bytes;
  int32_t origin = -1;
};
using WrittenRanges = std::vector<WrittenRange>;

/// Returns the ranges of `written`, without the bytes of `range`.
WrittenRanges without(const WrittenRanges &written, Range range) {
  WrittenRanges left;
  for (const WrittenRange &one : written) {
    Range before = {one.bytes.begin, std::min(one.bytes.end, range.begin)};
    Range after = {std::max(one.bytes.begin, range.end), one.bytes.end};
    for (Range rest : {before, after})
      if (rest.begin < rest.end)
        left.push_back({rest, one.origin});
  }
  return left;
}

Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// A fetched gradient: where it is in the step's temporary memory, and the
/// bytes of the state that it was fetched from.
struct FetchedSum {
  Range bytes, state;
  /// The index of the command that fetched the gradient.
  int64_t fetchedAt = 0;
  /// The bytes of the fetched gradient to which something was added, and which
  /// have not been stored or copied since.
  WrittenRanges changed;
};

/// Executes the commands of one rank, and tracks offloaded gradients from their
/// fetch to their store.
class Gradients {
public:
  explicit Gradients(const Trace &trace) : trace(trace) {}

  std::optional<Fault> run() {
    if (std::none_of(trace.states.begin(), trace.states.end(), waits))
      return std::nullopt;
    forEachEvent([&](const Event &event, const BodyRun &run) {
      if (event.kind == Event::Kind::Copy && gradientAt(event, run, true))
        lastStore = now;
      return true;
    });
    if (!forEachEvent([&](const Event &event, const BodyRun &run) {
          return execute(event, run);
        }))
      return fault;
    for (const FetchedSum &sum : sums)
      if (isLost(sum))
        refuse(sum.changed.front().origin, lost(sum));
    for (const WrittenRange &one : unread)
      refuse(one.origin,
             "stores in " + nameOf(one.bytes) + " what is never fetched");
    return fault;
  }

private:
  static Range shifted(Range range, int64_t bytes) {
    return {range.begin + bytes, range.end + bytes};
  }

  static bool waits(const State &state) {
    return state.isOffloaded && state.ofStep;
  }

  template <typename F> bool forEachEvent(F visit) {
    now = 0;
    for (const BodyRun &run : trace.runs)
      for (const Event &event : trace.bodies[run.body]) {
        ++now;
        if (!visit(event, run))
          return false;
      }
    return true;
  }

  const State *stateAt(Range range) const {
    for (const State &state : trace.states)
      if (waits(state) && state.range.overlaps(range))
        return &state;
    return nullptr;
  }
  std::string nameOf(Range range) const { return "@" + stateAt(range)->name; }

  /// Returns the written or the read operand of a copy.
  static const Access *accessOf(const Event &event, bool writes) {
    for (const Access &access : event.accesses)
      if (access.writes == writes)
        return &access;
    return nullptr;
  }

  /// Returns the offloaded gradient that a copy writes or reads; null if it is
  /// a copy of something else.
  const State *gradientAt(const Event &event, const BodyRun &run,
                          bool writes) const {
    const Access *access = accessOf(event, writes);
    return access && access->space == Space::Persistent
               ? stateAt(Trace::rangeOf(*access, run))
               : nullptr;
  }

  bool refuse(int32_t origin, const std::string &what) {
    fault = Fault{Fault::Kind::Flow, what, {{0, origin}}};
    return false;
  }

  bool isLost(const FetchedSum &sum) const {
    return !sum.changed.empty() && sum.fetchedAt < lastStore;
  }
  std::string lost(const FetchedSum &sum) const {
    return "adds to gradients of " + nameOf(sum.state) +
           ", which are not stored";
  }

  bool execute(const Event &event, const BodyRun &run) {
    if (event.kind == Event::Kind::Copy) {
      Range to = Trace::rangeOf(*accessOf(event, true), run);
      Range from = Trace::rangeOf(*accessOf(event, false), run);
      if (gradientAt(event, run, true))
        return store(event, to, from);
      if (gradientAt(event, run, false))
        return fetch(event, to, from);
      if (accessOf(event, true)->space == Space::Arena &&
          accessOf(event, false)->space == Space::Arena)
        return copy(to, from);
    }
    for (const Access &access : event.accesses) {
      Range range = Trace::rangeOf(access, run);
      if (access.writes && access.space == Space::Arena &&
          !write(event, run, range))
        return false;
      // Kernels on the host read gradients directly in the host's memory.
      if (!access.writes && access.space == Space::Persistent)
        unread = without(unread, range);
    }
    return true;
  }

  bool store(const Event &event, Range to, Range from) {
    for (FetchedSum &sum : sums) {
      if (!sum.bytes.overlaps(from))
        continue;
      if (to.begin - from.begin != sum.state.begin - sum.bytes.begin)
        return refuse(event.origin,
                      "stores gradients of " + nameOf(sum.state) +
                          " at another place than they came from");
      sum.changed = without(sum.changed, from);
    }
    for (const WrittenRange &one : unread)
      if (one.bytes.overlaps(to))
        return refuse(event.origin, "stores over gradients in " + nameOf(to) +
                                        " that nobody has fetched");
    // A store may cover padding between states, which nothing reads.
    for (const State &state : trace.states)
      if (waits(state) && state.range.overlaps(to))
        unread.push_back({common(state.range, to), event.origin});
    return true;
  }

  bool fetch(const Event &event, Range to, Range from) {
    unread = without(unread, from);
    if (!overwrite(to))
      return false;
    sums.push_back({to, from, now, {}});
    return true;
  }

  /// Handles a copy of fetched gradients within temporary memory. From then on
  /// the bytes of the copy must be stored, instead of the bytes that were
  /// copied.
  bool copy(Range to, Range from) {
    std::vector<FetchedSum> parts;
    for (FetchedSum &sum : sums) {
      Range both = common(sum.bytes, from);
      if (both.begin >= both.end)
        continue;
      FetchedSum part = {shifted(both, to.begin - from.begin),
                         shifted(both, sum.state.begin - sum.bytes.begin),
                         sum.fetchedAt,
                         {}};
      for (const WrittenRange &one : sum.changed)
        if (one.bytes.overlaps(both))
          part.changed = {{part.bytes, one.origin}};
      sum.changed = without(sum.changed, both);
      parts.push_back(part);
    }
    if (!overwrite(to))
      return false;
    sums.insert(sums.end(), parts.begin(), parts.end());
    return true;
  }

  /// Forgets fetched gradients whose bytes are overwritten.
  bool overwrite(Range range) {
    for (auto sum = sums.begin(); sum != sums.end();) {
      if (!sum->bytes.overlaps(range)) {
        ++sum;
        continue;
      }
      if (isLost(*sum))
        return refuse(sum->changed.front().origin, lost(*sum));
      sum = sums.erase(sum);
    }
    return true;
  }

  /// Handles a command's write to `range`. If the command also reads these
  /// bytes, it adds to the gradient that they hold.
  bool write(const Event &event, const BodyRun &run, Range range) {
    auto reads = [&](const Access &access) {
      return !access.writes && access.space == Space::Arena &&
             Trace::rangeOf(access, run) == range;
    };
    if (std::none_of(event.accesses.begin(), event.accesses.end(), reads))
      return overwrite(range);
    for (FetchedSum &sum : sums)
      if (sum.bytes.overlaps(range)) {
        sum.changed = without(sum.changed, range);
        sum.changed.push_back({common(sum.bytes, range), event.origin});
      }
    return true;
  }

  const Trace &trace;
  std::list<FetchedSum> sums;
  WrittenRanges unread;
  /// The index of the current command, and the index of the last command that
  /// stores a gradient.
  int64_t now = 0, lastStore = 0;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkGradients(const Trace &trace) {
  return Gradients(trace).run();
}
