//===- Flow.cpp - Follows bytes from writers to readers -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkFlow`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "ByteMap.h"
#include "heddle/PlanFormat/Names.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// The buffer or micro-batch for which a byte was last written, and the guard
/// of the command that wrote it.
struct LastWrite {
  int64_t owner = 0; ///< 0: not written, or nothing is known.
  plan::Guard guard;

  bool operator==(const LastWrite &other) const {
    return owner == other.owner && guard == other.guard;
  }
  bool operator<(const LastWrite &other) const {
    auto key = [](const LastWrite &write) {
      return std::tuple(write.owner, write.guard.condition, write.guard.value);
    };
    return key(*this) < key(other);
  }
};

/// For each byte of memory, its last write.
///
/// Commands with a guard are skipped in some steps. Nevertheless one walk over
/// all commands proves all combinations: a command may only read bytes whose
/// last write in program order happens in every step in which the command
/// happens. That is a write without a guard or with the same guard, or two
/// writes for one owner whose guards are opposite. A skipped write in between
/// makes no difference, because it would have been the last write.
class Owners : public ByteMap<LastWrite> {
public:
  /// Marks those bytes of the range that were written for `owner` (the number
  /// of a buffer or micro-batch) as not written.
  void release(Range range, int64_t owner) {
    update(range, [&](LastWrite &known) {
      known = known.owner == owner ? LastWrite() : known;
    });
  }

  void write(Range range, int64_t owner, const plan::Guard &guard = {}) {
    if (guard.isAlways())
      return set(range, {owner, guard});
    plan::Guard opposite = {guard.condition, !guard.value};
    update(range, [&](LastWrite &known) {
      bool isComplete = known.owner == owner &&
                        (known.guard.isAlways() || known.guard == opposite);
      known = {owner, isComplete ? plan::Guard() : guard};
    });
  }

  /// Whether a command with this guard finds in the range what was written for
  /// `owner`.
  bool owns(Range range, int64_t owner, const plan::Guard &guard = {}) const {
    auto piece = std::prev(pieces.upper_bound(range.begin));
    for (; piece != pieces.end() && piece->first < range.end; ++piece)
      if (!(piece->second == LastWrite{owner, {}} ||
            piece->second == LastWrite{owner, guard}) &&
          range.begin < range.end)
        return false;
    return true;
  }

  void normalize() {
    merge([](const LastWrite &) { return true; });
  }
};

std::string text(Range range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
         ")";
}

/// Executes the commands of one rank. A body (the commands of a loop, or of a
/// stage's forward or backward pass) is executed again only if the memory
/// before it differs from the memory before each earlier execution. So a long
/// loop costs only its first iterations. An access whose address varies counts
/// as an access to all bytes that it may touch.
class Flow {
public:
  explicit Flow(const Trace &trace)
      : trace(trace), varying(trace.bodies.size()),
        checked(trace.bodies.size()) {
    for (size_t body = 0; body < trace.bodies.size(); ++body)
      for (const Event &event : trace.bodies[body])
        for (bool writes : {false, true})
          for (const Access &access : event.accesses)
            if (access.writes == writes && (access.varies() || access.inSlot))
              varying[body].push_back({&event, &access});
    written.write({INT64_MIN, INT64_MAX}, 1);
    for (const State &state : trace.states)
      if (state.ofStep)
        written.write(state.range, 0);
  }

  std::optional<Fault> run() {
    int64_t state = intern(Owners());
    for (const BodyRun &run : trace.runs) {
      if (!checked[run.body] && !(checkExtents(run) && checkStates(run)))
        return fault;
      checked[run.body] = true;
      if (!runVarying(run))
        return fault;
      auto [next, isNew] = transitions.try_emplace({run.body, state}, 0);
      if (isNew) {
        Owners owners = *states[state];
        for (const Event &event : trace.bodies[run.body])
          if (!execute(event, run, owners))
            return fault;
        next->second = intern(std::move(owners));
      }
      state = next->second;
    }
    checkOutputs(*states[state]);
    if (!fault && !cachesUnread.empty()) {
      const auto &[name, event] = *cachesUnread.begin();
      fault =
          Fault{Fault::Kind::Flow,
                "writes the cache @" + name + ", which this run does not read",
                {{0, event->origin}}};
    }
    return fault;
  }

  int64_t executed = 0;

private:
  int64_t intern(Owners owners) {
    owners.normalize();
    auto [entry, isNew] = numbers.try_emplace(std::move(owners), states.size());
    if (isNew)
      states.push_back(&entry->first);
    return entry->second;
  }

  bool refuse(Fault::Kind kind, const Event &event, const Access &access,
              const std::string &what) {
    fault = Fault{kind,
                  "operand " + std::to_string(access.operand) + what,
                  {{0, event.origin}}};
    return false;
  }

  /// Checks that all outputs of the step were written when it ends.
  void checkOutputs(const Owners &owners) {
    for (const Port &port : trace.ports) {
      Range range = trace.buffers[port.buffer];
      if (port.isOutput && !writtenInParts.count(port.buffer) &&
          !owners.owns(range, port.buffer + 1))
        fault = Fault{Fault::Kind::Flow,
                      "is an output, but its bytes " + text(range) +
                          " were not written, or were overwritten by another "
                          "buffer",
                      {{0, port.origin}}};
    }
  }

  bool checkExtent(const Event &event, const Access &access,
                   const BodyRun &run) {
    Range range = Trace::rangeOf(access, run);
    range.end += access.spread;
    Range buffer = trace.buffers[access.buffer];
    return (buffer.begin <= range.begin && range.end <= buffer.end) ||
           refuse(Fault::Kind::Extent, event, access,
                  " has the bytes " + text(range) + ", its buffer " +
                      text(buffer));
  }

  /// Checks that accesses do not reach beyond their buffers. Accesses whose
  /// address depends on the iteration or the micro-batch are not checked here.
  bool checkExtents(const BodyRun &run) {
    for (const Event &event : trace.bodies[run.body])
      for (const Access &access : event.accesses)
        if (!access.varies() && !checkExtent(event, access, run))
          return false;
    return true;
  }

  /// Returns the first state whose end is greater than `byte`.
  std::vector<State>::const_iterator stateAt(int64_t byte) const {
    return std::upper_bound(trace.states.begin(), trace.states.end(), byte,
                            [](int64_t byte, const State &state) {
                              return byte < state.range.end;
                            });
  }

  /// Checks that only the optimizer, attention and transfers write states that
  /// live across steps, and that only states with slots (an entry for each
  /// micro-batch in flight) are accessed by slot.
  bool checkWriter(const Event &event, const Access &access, Range range) {
    bool mayUpdate = event.updates || event.kind == Event::Kind::Start;
    for (auto state = stateAt(range.begin);
         state != trace.states.end() && state->range.begin < range.end;
         ++state) {
      if (access.inSlot && (state->lasts || state->ofStep))
        return refuse(Fault::Kind::Flow, event, access,
                      " is a slot of @" + state->name + ", which has none");
      // A copy may write an offloaded state. Whether it copies the right bytes
      // is checked by `checkStateTiles`, not here.
      bool isStored = event.kind == Event::Kind::Copy &&
                      (state->isOffloaded || plan::copiesBeside(event.stream));
      bool mayWrite =
          state->isCache ? event.writesCache : mayUpdate || isStored;
      if (access.writes && state->lasts && !mayWrite)
        return refuse(
            Fault::Kind::Flow, event, access,
            " is written, which holds @" + state->name + ": " +
                (state->isCache ? "nn.cache_write" : "the optimizer") +
                " alone writes that");
    }
    return true;
  }

  /// Checks the operands that hold positions in a key-value cache. Each must be
  /// that input of the program which the runtime fills with these positions.
  bool checkElements(const Event &event, const Access &access,
                     const BodyRun &run) {
    if (event.kernel < 0)
      return true;
    const auto &places = trace.kernels[event.kernel].places;
    auto wanted = places.find(access.operand);
    if (wanted == places.end())
      return true;
    bool isInput = std::any_of(
        trace.ports.begin(), trace.ports.end(), [&](const Port &port) {
          return port.buffer == access.buffer && port.role == wanted->second &&
                 !port.isOutput;
        });
    return (isInput &&
            Trace::rangeOf(access, run) == trace.buffers[access.buffer]) ||
           refuse(Fault::Kind::Flow, event, access,
                  std::string(" says where in a cache tokens are, and is not "
                              "the input `") +
                      plan::nameOf(wanted->second) + "`");
  }

  /// Checks that a program writes the keys of its tokens to each cache exactly
  /// once, before attention reads that cache. A layer that used another layer's
  /// cache would break this rule.
  bool checkCache(const Event &event, const Access &access, Range range) {
    for (auto state = stateAt(range.begin);
         state != trace.states.end() && state->range.begin < range.end;
         ++state) {
      if (!state->isCache)
        continue;
      if (access.writes && !event.readsCache)
        cachesUnread[state->name] = &event;
      else if (event.readsCache)
        cachesUnread.erase(state->name);
      if (access.writes
              ? !cachesWritten.insert(state->name).second
              : !event.writesCache && !cachesWritten.count(state->name))
        return refuse(Fault::Kind::Flow, event, access,
                      access.writes
                          ? " is written, which holds @" + state->name +
                                ": this run has written it already"
                          : " is read, which holds @" + state->name +
                                ": this run has not written it");
    }
    return true;
  }

  /// Checks that gradients, and other states that each step computes anew, are
  /// written before they are read. It is enough to check the first execution of
  /// each body (of a loop, for example), because later executions find more
  /// bytes written.
  bool checkStates(const BodyRun &run) {
    for (const Event &event : trace.bodies[run.body])
      for (bool writes : {false, true})
        for (const Access &access : event.accesses) {
          if (access.writes == writes && !checkElements(event, access, run))
            return false;
          if (access.space != Space::Persistent || access.writes != writes)
            continue;
          bool chosen = access.varies() || access.rankTerm != 0;
          Range range = chosen ? access.choices : Trace::rangeOf(access, run);
          if (!checkWriter(event, access, range) ||
              !checkCache(event, access, range))
            return false;
          if (writes)
            written.write(range, 1, event.guard);
          else if (!written.owns(range, 1, event.guard))
            return refuse(Fault::Kind::Flow, event, access,
                          " is read, but this step has not written all of its "
                          "bytes " +
                              text(range) + ": they are those of @" +
                              stateAt(range.begin)->name);
        }
    return true;
  }

  bool runVarying(const BodyRun &run) {
    for (auto [event, access] : varying[run.body]) {
      if (!checkExtent(*event, *access, run))
        return false;
      int64_t iteration = trace.iterationOf(*event, run);
      Range range = Trace::rangeOf(*access, run);
      if (!access->inSlot)
        continue;
      if (access->writes)
        slots.write(range, iteration + 1, event->guard);
      else if (!slots.owns(range, iteration + 1, event->guard))
        return refuse(Fault::Kind::Flow, *event, *access,
                      " is read, but its bytes " + text(range) +
                          " do not hold what micro-batch " +
                          std::to_string(iteration) + " left in that slot");
    }
    return true;
  }

  bool execute(const Event &event, const BodyRun &run, Owners &owners) {
    ++executed;
    for (const Access &access : event.accesses) {
      if (access.space == Space::Persistent || access.writes ||
          event.kind == Event::Kind::Fresh)
        continue;
      bool chosen = access.varies() || access.rankTerm != 0;
      Range range = chosen ? access.choices : Trace::rangeOf(access, run);
      if (!owners.owns(range, access.buffer + 1, event.guard))
        return refuse(Fault::Kind::Flow, event, access,
                      " is read, but its bytes " + text(range) +
                          " were not written, or were overwritten by another "
                          "buffer");
    }
    for (const Access &access : event.accesses) {
      if (access.space == Space::Persistent)
        continue;
      Range range = Trace::rangeOf(access, run);
      if (event.kind == Event::Kind::Fresh)
        owners.release(range, access.buffer + 1);
      if (!access.writes)
        continue;
      if (!access.varies() && access.rankTerm == 0) {
        owners.write(range, access.buffer + 1, event.guard);
        continue;
      }
      writtenInParts.insert(access.buffer);
      if (!owners.owns(access.choices, access.buffer + 1))
        owners.write(access.choices, 0);
    }
    return true;
  }

  const Trace &trace;
  /// For each body (the commands of a loop, or of a stage's forward or backward
  /// pass): the accesses whose address depends on the iteration or the
  /// micro-batch. They must be checked in each execution of the body. A
  /// command's reads come before its writes.
  std::vector<std::vector<std::pair<const Event *, const Access *>>> varying;
  std::vector<bool> checked;
  /// Has 1 for the bytes that the step need not write before it reads them: the
  /// step has written them, or they live across steps.
  Owners written;
  Owners slots; ///< For bytes of slots, 1 + the micro-batch that wrote them.
  std::set<std::string> cachesWritten;
  /// Caches that were written and not read since, with the command that wrote
  /// them.
  std::map<std::string, const Event *> cachesUnread;
  /// The buffers of which each loop iteration writes only a part.
  std::set<int32_t> writtenInParts;
  std::map<Owners, int64_t> numbers;
  std::vector<const Owners *> states;
  std::map<std::pair<int32_t, int64_t>, int64_t> transitions;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkFlow(const Trace &trace,
                                              int64_t *executed) {
  Flow flow(trace);
  std::optional<Fault> fault = flow.run();
  if (executed)
    *executed += flow.executed;
  return fault;
}
