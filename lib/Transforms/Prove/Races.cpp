//===- Races.cpp - Finds commands that race -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkRaces`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "BytesInUse.h"
#include "GuardedClocks.h"
#include <algorithm>
#include <array>
#include <deque>
#include <set>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// Adjacent commands of a body (of a loop, for example), and all bytes that
/// they use. If these bytes conflict with no running operation, the commands
/// need not be checked individually.
struct CommandRange {
  size_t first = 0, last = 0; ///< The commands [first, last) of the body.
  /// Whether the range is a single command that starts or ends a communication
  /// whose other end is outside of the range. An example is the start of a
  /// collective that a later command waits for.
  bool isOpen = false;
  /// Whether the range contains communication. Unless `isOpen` is true, this is
  /// collectives, each together with its wait. The first execution of the range
  /// is then always checked command by command, because its collectives may
  /// conflict with its other commands.
  bool isSealed = false;
  /// The bytes that the range accesses at fixed addresses, by address space;
  /// sorted and disjoint. `others` are the accesses whose address depends on
  /// the iteration, the micro-batch or the rank.
  std::vector<Range> reads[2], writes[2];
  std::vector<const Access *> others;

  void add(const Event &event) {
    last += 1;
    isSealed |= event.isCommunication();
    if (event.kind == Event::Kind::Fresh)
      return;
    for (const Access &access : event.accesses)
      if (access.bytes == 0)
        continue;
      else if (access.varies() || access.rankTerm != 0)
        others.push_back(&access);
      else
        (access.writes ? writes : reads)[int(access.space)].push_back(
            {access.begin, access.begin + access.bytes});
  }
};

void merge(std::vector<Range> &ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](Range a, Range b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (Range range : ranges)
    if (kept > 0 && range.begin <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  ranges.resize(kept);
}

/// Finds the shortest sealed range of commands whose first command is `first`,
/// the start of a collective. A sealed range waits for everything that it
/// starts, and contains no message and no access with a varying address.
/// Returns the end of the range, or `first` if there is no such range.
size_t endOfSealed(const Body &body, size_t first) {
  std::set<int32_t> open;
  for (size_t index = first; index < body.size(); ++index) {
    const Event &event = body[index];
    if (event.kind > Event::Kind::Wait ||
        std::any_of(event.accesses.begin(), event.accesses.end(),
                    [](const Access &access) { return access.varies(); }))
      return first;
    if (event.kind == Event::Kind::Start && !open.insert(event.token).second)
      return first;
    if (event.kind == Event::Kind::Wait && !open.erase(event.token))
      return first;
    if (open.empty())
      return index + 1;
  }
  return first;
}

std::vector<CommandRange> commandRangesOf(const Body &body) {
  std::vector<CommandRange> commandRanges;
  for (size_t index = 0; index < body.size();) {
    size_t end = index + 1;
    if (body[index].kind == Event::Kind::Start)
      end = endOfSealed(body, index);
    bool open = body[index].isCommunication() && end <= index + 1;
    if (open || commandRanges.empty() || commandRanges.back().isOpen) {
      commandRanges.emplace_back();
      commandRanges.back().first = commandRanges.back().last = index;
      commandRanges.back().isOpen = open;
    }
    do
      commandRanges.back().add(body[index++]);
    while (index < end);
  }
  for (CommandRange &commands : commandRanges)
    for (Space space : {Space::Persistent, Space::Arena}) {
      merge(commands.reads[int(space)]);
      merge(commands.writes[int(space)]);
    }
  return commandRanges;
}

class Races {
public:
  explicit Races(const Trace &trace)
      : trace(trace), tokens(trace.tokens, notStarted) {
    std::array<bool, numStreams> isUsed = {true};
    for (const Body &body : trace.bodies) {
      commandRanges.push_back(commandRangesOf(body));
      for (const Event &event : body)
        isUsed[streamOf(event)] = true;
    }
    for (int stream = 0; stream < numStreams; ++stream)
      if (isUsed[stream])
        streams.push_back(stream);
  }

  std::optional<Fault> run() {
    if (!runOnce())
      return fault;
    // Execute the step a second time, because its commands may conflict with
    // operations that the first execution left unfinished.
    if (!left.empty()) {
      beginSecond();
      runOnce();
    }
    return fault;
  }

private:
  bool runOnce() {
    std::vector<bool> wasRun(trace.bodies.size());
    for (const BodyRun &run : trace.runs) {
      const Body &body = trace.bodies[run.body];
      for (const CommandRange &commands : commandRanges[run.body]) {
        bool isKnown = !commands.isSealed || wasRun[run.body];
        if (!hasOthers() && !commands.isOpen && isKnown &&
            !mayConflict(commands, run))
          continue;
        for (size_t index = commands.first; index < commands.last; ++index)
          if (!check(body[index], run) || !communicate(body[index], run))
            return false;
      }
      wasRun[run.body] = true;
    }
    for (int64_t operation : tokens)
      if (operation >= 0)
        fault = neverWaited(operation);
    for (int stream : streams)
      for (int64_t operation : ofStream[stream])
        if (!isBefore(operations[operation], compute) && !isLeft(operation))
          fault = neverWaited(operation);
    return !fault;
  }

  /// Forgets the waits with guards of the first execution, because the second
  /// may have other outcomes of the conditions. Operations with guards were
  /// waited for, so they are done.
  void beginSecond() {
    mostLeft = operations.size();
    for (Operation &operation : operations)
      if (!operation.event->guard.isAlways())
        release(operation);
    for (GuardedClocks &clocks : known)
      clocks.forgetGuards();
    for (auto &[token, point] : points)
      point.clocks.forgetGuards();
  }

  /// Whether the operation is one of this step and may be unfinished at the end
  /// of the step, because the next step waits for it. An operation that the
  /// previous step left must be done by then.
  bool isLeft(int64_t operation) const {
    const Operation &open = operations[operation];
    return operation >= mostLeft &&
           std::any_of(left.begin(), left.end(), [&](int32_t token) {
             auto point = points.find(token);
             return point != points.end() &&
                    open.number < point->second.clocks.always[open.stream];
           });
  }

  static constexpr int64_t notStarted = -1, done = -2;

  /// An operation that may still be running. It is a collective or message, or
  /// a command that at least one stream has not yet waited for.
  struct Operation {
    const Event *event;
    BodyRun run;
    std::vector<BytesInUse::Handle> uses;
    /// The stream that executes the operation. -1: a collective or message,
    /// which runs concurrently with all streams.
    int stream = -1;
    int64_t number = 0; ///< The position of the operation in its stream.
  };

  /// The streams that execute commands other than communication. A Clock says
  /// how many commands of each of these streams are done (a vector clock).
  static constexpr int compute = 0, copy = 1, store = 2, host = 3;
  static int streamOf(const Event &event) {
    return event.stream == plan::Stream::Copy    ? copy
           : event.stream == plan::Stream::Store ? store
           : event.stream == plan::Stream::Host  ? host
                                                 : compute;
  }
  /// Whether a stream other than `compute` is used.
  bool hasOthers() const { return streams.size() > 1; }

  bool meets(Space space, const std::vector<Range> &ranges, bool writes) const {
    if (inUse.empty(space))
      return false;
    Range hull = inUse.hull(space);
    auto range = std::lower_bound(
        ranges.begin(), ranges.end(), hull.begin,
        [](const Range &range, int64_t begin) { return range.end <= begin; });
    Access access;
    access.writes = writes;
    for (; range != ranges.end() && range->begin < hull.end; ++range) {
      access.begin = range->begin;
      access.bytes = range->end - range->begin;
      if (inUse.find(space, Use(access, {})) >= 0)
        return true;
    }
    return false;
  }

  bool mayConflict(const CommandRange &commands, const BodyRun &run) const {
    for (Space space : {Space::Persistent, Space::Arena})
      if (meets(space, commands.reads[int(space)], false) ||
          meets(space, commands.writes[int(space)], true))
        return true;
    for (const Access *access : commands.others)
      if (inUse.find(access->space, Use(*access, run)) >= 0)
        return true;
    return false;
  }

  bool check(const Event &event, const BodyRun &run) {
    for (const Access &access : event.accesses) {
      // The event Fresh marks the begin of a buffer's lifetime. It accesses no
      // bytes, unless the runtime writes an input to the buffer.
      bool isNothing = event.kind == Event::Kind::Fresh && !access.writes;
      if (access.bytes == 0 || isNothing)
        continue;
      Use use(access, run);
      int64_t found = inUse.find(access.space, use, [&](int64_t operation) {
        const Operation &other = operations[operation];
        return excludes(other.event->guard, event.guard) ||
               isBefore(other, streamOf(event), event.guard);
      });
      if (found < 0)
        continue;
      const Operation &other = operations[found];
      fault = Fault{
          Fault::Kind::Race,
          std::string(access.writes ? "writes" : "reads") + " bytes [" +
              std::to_string(use.range.begin) + ", " +
              std::to_string(use.range.end) + ") of the " +
              (access.space == Space::Arena ? "arena" : "persistent region") +
              ", which " + trace.describe(*other.event, other.run) +
              (found < mostLeft ? " of the run before" : "") + " still uses",
          {{0, event.origin}, {0, other.event->origin}}};
      return false;
    }
    return true;
  }

  /// Whether the operation is done before any later command of the stream
  /// begins, in all steps that execute the operation and a command with the
  /// guard.
  bool isBefore(const Operation &operation, int stream,
                const plan::Guard &guard = {}) const {
    if (operation.stream == stream)
      return true;
    if (operation.stream < 0)
      return false;
    return known[stream].knows(operation.stream, operation.number,
                               operation.event->guard, guard);
  }

  /// Whether no step executes commands with both guards.
  static bool excludes(const plan::Guard &one, const plan::Guard &other) {
    return one.condition == other.condition && one.value != other.value;
  }

  bool communicate(const Event &event, const BodyRun &run) {
    if (event.kind == Event::Kind::Join)
      return join(event, run);
    // A Settle event waits for a point that the previous step has recorded. In
    // the first execution of the step there is no such point, so the event does
    // nothing.
    if (event.kind == Event::Kind::Settle)
      return points.count(event.token) == 0 || join(event, run);
    if (event.kind == Event::Kind::Record) {
      points[event.token] = pointOf(event);
      if (event.carries)
        left.insert(event.token);
    }
    bool endsItself =
        !event.isCommunication() || event.kind == Event::Kind::Receive;
    if (hasOthers() && endsItself && !event.accesses.empty() &&
        event.kind != Event::Kind::Fresh)
      follow(begin(event, run), streamOf(event));
    if (event.kind == Event::Kind::Start) {
      int64_t &token = tokens[event.token];
      if (token >= 0) {
        fault = neverWaited(token);
        return false;
      }
      token = begin(event, run);
    }
    if (event.kind == Event::Kind::Wait)
      return wait(event, run);
    if (event.kind == Event::Kind::Send)
      sends[trace.messages[event.number].channel.name].push_back(
          begin(event, run));
    if (event.kind == Event::Kind::Flush) {
      auto &under = sends[trace.messages[event.number].channel.name];
      while (static_cast<int64_t>(under.size()) > event.left) {
        finish(under.front());
        under.pop_front();
      }
    }
    return true;
  }

  int64_t begin(const Event &event, const BodyRun &run) {
    int64_t number = operations.size();
    operations.push_back({&event, run, {}, -1, 0});
    for (const Access &access : event.accesses)
      if (access.bytes > 0)
        operations.back().uses.push_back(
            inUse.insert(access.space, Use(access, run), number));
    return number;
  }

  /// The point that a Record event records.
  struct Point {
    plan::Guard guard; ///< The guard of the Record event.
    GuardedClocks clocks;
  };

  /// Returns the point of a Record event: what its stream has waited for, and
  /// all earlier commands of the stream.
  Point pointOf(const Event &event) {
    const int stream = streamOf(event);
    Clock oldest = issued;
    for (int other : streams)
      if (!ofStream[other].empty())
        oldest[other] = operations[ofStream[other].front()].number;
    known[stream].prune(oldest);
    Point point = {event.guard, known[stream]};
    point.clocks.always[stream] = issued[stream];
    return point;
  }

  /// From now on, a command that waits for the stream also waits for the
  /// operation.
  void follow(int64_t operation, int stream) {
    operations[operation].stream = stream;
    operations[operation].number = issued[stream]++;
    ofStream[stream].push_back(operation);
  }

  bool join(const Event &event, const BodyRun &run) {
    auto point = points.find(event.token);
    if (point == points.end()) {
      fault = notBefore(event, run);
      return false;
    }
    if (!point->second.guard.isAlways() &&
        !(point->second.guard == event.guard)) {
      fault = otherSteps(event, run);
      return false;
    }
    known[streamOf(event)].advance(point->second.clocks, event.guard);
    for (int other : streams) {
      // Remove operations that all streams know to be done, because they can
      // conflict with nothing.
      auto isKnown = [&](int64_t operation) {
        return std::all_of(streams.begin(), streams.end(), [&](int stream) {
          return isBefore(operations[operation], stream);
        });
      };
      for (auto &list = ofStream[other]; !list.empty() && isKnown(list.front());
           list.pop_front())
        release(list.front());
    }
    return true;
  }

  /// Marks a collective or message as done, because the stream `compute` has
  /// waited for it. For any other stream it is done only after that stream has
  /// waited for `compute`.
  void finish(int64_t operation) {
    if (hasOthers())
      follow(operation, compute);
    else
      release(operation);
  }

  void release(int64_t operation) { release(operations[operation]); }
  void release(Operation &operation) {
    for (const BytesInUse::Handle &use : operation.uses)
      inUse.erase(use);
    operation.uses.clear();
  }

  bool wait(const Event &event, const BodyRun &run) {
    int64_t *token = event.token >= 0 ? &tokens[event.token] : nullptr;
    if (!token || *token == notStarted) {
      fault = notBefore(event, run);
      return false;
    }
    if (*token != done && !(operations[*token].event->guard == event.guard)) {
      fault = otherSteps(event, run);
      return false;
    }
    if (*token != done)
      finish(*token);
    *token = done;
    return true;
  }

  Fault otherSteps(const Event &event, const BodyRun &run) const {
    return {Fault::Kind::Waits,
            trace.describe(event, run) +
                " has another condition than what it waits for",
            {{0, event.origin}}};
  }

  Fault notBefore(const Event &event, const BodyRun &run) const {
    return {Fault::Kind::Waits,
            trace.describe(event, run) +
                " waits for what was not started before it in its sequence",
            {{0, event.origin}}};
  }

  Fault neverWaited(int64_t operation) const {
    const Operation &other = operations[operation];
    return {Fault::Kind::Waits,
            trace.describe(*other.event, other.run) +
                (operation < mostLeft
                     ? " is left to the next run, which does not wait for it"
                     : " is started and never waited for"),
            {{0, other.event->origin}}};
  }

  const Trace &trace;
  /// For each body of the trace (of a loop, for example), the ranges into which
  /// its commands are divided.
  std::vector<std::vector<CommandRange>> commandRanges;
  /// For each token, the index of the operation that was started with it. The
  /// index is `notStarted` before the start, and `done` after the wait.
  std::vector<int64_t> tokens;
  std::deque<Operation> operations;
  /// For each channel, the sends that were not waited for, oldest first.
  std::map<std::string, std::deque<int64_t>> sends;
  BytesInUse inUse;
  std::vector<int> streams; ///< The streams in use.
  Clock issued = {};
  /// For each stream, the commands that it has waited for.
  std::array<GuardedClocks, numStreams> known = {};
  /// For each stream, its operations that may still be running.
  std::deque<int64_t> ofStream[numStreams];
  /// For each token of a Record event: the point that the event has recorded.
  std::map<int32_t, Point> points;
  std::set<int32_t> left; ///< Tokens of points that the next step waits for.
  /// The check executes the step a second time if the step leaves operations
  /// unfinished. Operations with an index below `mostLeft` are those of the
  /// first execution. 0 during the first execution.
  int64_t mostLeft = 0;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkRaces(const Trace &trace) {
  return Races(trace).run();
}
