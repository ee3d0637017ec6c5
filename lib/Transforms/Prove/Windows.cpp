//===- Windows.cpp - What is stored is what the step made for it ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <list>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// Bytes of the arena that hold bytes of a state.
struct Window {
  Range bytes;
  Range state;
  bool updated = false; ///< And not stored since.
  int32_t origin = -1;  ///< Of the update.
};

/// Bytes of a slot that hold what was stored there.
struct Stored {
  Range bytes;
  bool fetched = false;
  int32_t origin = -1;
};

/// Executes one trace, as far as windows go. They are those of accesses whose
/// place does not vary.
class Windows {
public:
  explicit Windows(const Trace &trace) : trace(trace) {}

  std::optional<Fault> run() {
    if (std::none_of(trace.states.begin(), trace.states.end(), holdsWindows))
      return std::nullopt;
    for (const Run &run : trace.runs)
      for (const Event &event : trace.bodies[run.body])
        if (!execute(event, run))
          return fault;
    for (const Window &window : windows)
      if (window.updated)
        refuse(window.origin, "updates a window of " + nameOf(window.state) +
                                  ", which is not stored");
    for (const Stored &slot : slots)
      if (!slot.fetched)
        refuse(slot.origin, unread(slot));
    return fault;
  }

private:
  /// Whether it is stored and fetched.
  static bool holdsWindows(const State &state) {
    return state.isElsewhere && (state.lasts || state.hasSlots);
  }

  bool refuse(int32_t origin, const std::string &what) {
    fault = Fault{Fault::Kind::Flow, what, {{0, origin}}};
    return false;
  }

  /// The state with these bytes that is not in the device's memory, or null.
  const State *elsewhere(Space space, Range range) const {
    if (space != Space::Persistent)
      return nullptr;
    for (const State &state : trace.states)
      if (holdsWindows(state) && state.range.overlaps(range))
        return &state;
    return nullptr;
  }
  std::string nameOf(Range range) const {
    return "@" + elsewhere(Space::Persistent, range)->name;
  }

  bool execute(const Event &event, const Run &run) {
    if (event.kind == Event::Kind::Fresh)
      return true;
    const Access *target = nullptr, *source = nullptr;
    for (const Access &access : event.accesses)
      (access.writes ? target : source) = &access;
    if (event.kind == Event::Kind::Copy) {
      Range to = Trace::rangeOf(*target, run);
      Range from = Trace::rangeOf(*source, run);
      if (const State *state = elsewhere(target->space, to))
        return state->hasSlots ? fill(event, to) : store(event, to, from);
      if (const State *state = elsewhere(source->space, from))
        return state->hasSlots ? take(event, to, from) : fetch(event, to, from);
    }
    for (const Access &access : event.accesses)
      if (access.writes && access.space == Space::Arena &&
          !write(event, Trace::rangeOf(access, run)))
        return false;
    return true;
  }

  bool store(const Event &event, Range to, Range from) {
    for (Window &window : windows)
      if (window.bytes.begin == from.begin && window.bytes.end == from.end &&
          window.state.begin == to.begin && window.updated) {
        window.updated = false;
        return true;
      }
    return refuse(event.origin, "writes to " + nameOf(to) +
                                    " what the optimizer has not made of the "
                                    "bytes there");
  }

  std::string unread(const Stored &slot) const {
    return "stores in " + nameOf(slot.bytes) + " what is never fetched";
  }

  bool fill(const Event &event, Range to) {
    for (auto slot = slots.begin(); slot != slots.end();) {
      if (!slot->bytes.overlaps(to)) {
        ++slot;
        continue;
      }
      if (!slot->fetched)
        return refuse(slot->origin, unread(*slot));
      slot = slots.erase(slot);
    }
    slots.push_back({to, false, event.origin});
    return true;
  }

  bool take(const Event &event, Range to, Range from) {
    for (Stored &slot : slots)
      if (slot.bytes.begin == from.begin && slot.bytes.end == from.end) {
        slot.fetched = true;
        return overwrite(event, to);
      }
    return refuse(event.origin, "fetches of " + nameOf(from) +
                                    " other bytes than were stored there");
  }

  bool fetch(const Event &event, Range to, Range from) {
    for (const Window &window : windows)
      if (window.updated && window.state.overlaps(from))
        return refuse(event.origin, "reads bytes of " + nameOf(from) +
                                        " that were updated and not stored");
    if (!overwrite(event, to))
      return false;
    windows.push_back({to, from});
    return true;
  }

  /// The windows that have some of the bytes are no more.
  bool overwrite(const Event &event, Range range) {
    for (auto window = windows.begin(); window != windows.end();) {
      if (!window->bytes.overlaps(range)) {
        ++window;
        continue;
      }
      if (window->updated)
        return refuse(event.origin, "overwrites a window of " +
                                        nameOf(window->state) +
                                        " that was updated and not stored");
      window = windows.erase(window);
    }
    return true;
  }

  bool write(const Event &event, Range range) {
    for (Window &window : windows)
      if (event.updates && window.bytes.begin == range.begin &&
          window.bytes.end == range.end) {
        window.updated = true;
        window.origin = event.origin;
        return true;
      }
    return overwrite(event, range);
  }

  const Trace &trace;
  std::list<Window> windows;
  std::list<Stored> slots;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkWindows(const Trace &trace) {
  return Windows(trace).run();
}
