//===- StateTiles.cpp - Checks that updated tiles are stored --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkStateTiles`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <list>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// Temporary memory that holds a tile of an offloaded state. The tile was
/// fetched, was computed by an optimizer update or collective, or is a copy of
/// such a tile.
struct StateTile {
  Range bytes;
  /// The bytes of the state from which the tile was fetched, or to which it was
  /// stored. Empty if it was computed and not stored yet.
  Range state;
  bool updated = false; ///< Whether the tile was updated, and not stored since.
  int32_t origin = -1;  ///< The command that updated the tile.
};

/// An activation that was stored in a slot (a state's entry for one
/// micro-batch): the bytes of the slot, and whether they have been fetched
/// since.
struct Stored {
  Range bytes;
  bool fetched = false;
  int32_t origin = -1;
};

/// Executes the commands of one rank, and tracks tiles of offloaded states from
/// their fetch to their store. Accesses with a varying address are not checked.
class StateTileChecker {
public:
  explicit StateTileChecker(const Trace &trace) : trace(trace) {}

  std::optional<Fault> run() {
    if (std::none_of(trace.states.begin(), trace.states.end(), isTiled) &&
        std::none_of(trace.bodies.begin(), trace.bodies.end(), copiesBeside))
      return std::nullopt;
    for (const BodyRun &run : trace.runs)
      for (const Event &event : trace.bodies[run.body])
        if (!execute(event, run))
          return fault;
    for (const StateTile &tile : tiles)
      if (tile.updated)
        refuse(tile.origin, "updates a tile of " + nameOf(tile.state) +
                                ", which is not stored");
    for (const Stored &slot : slots)
      if (!slot.fetched)
        refuse(slot.origin, unread(slot));
    if (!fault && update >= 0)
      checkCopies();
    return fault;
  }

private:
  /// Whether the check applies to a state: it is offloaded, and lives across
  /// steps or holds activations.
  static bool isTiled(const State &state) {
    return state.isOffloaded && (state.lasts || state.hasSlots);
  }

  /// Whether the body (the commands of a loop, for example) has copies on
  /// streams other than `compute`.
  static bool copiesBeside(const Body &body) {
    return std::any_of(body.begin(), body.end(), [](const Event &event) {
      return event.kind == Event::Kind::Copy &&
             plan::copiesBeside(event.stream);
    });
  }

  /// Checks that copies of updated parameters, for example in bf16, are updated
  /// too. A store, or a move from the host back to the device, must write each
  /// byte of such a copy.
  void checkCopies() {
    std::sort(stored.begin(), stored.end(),
              [](Range a, Range b) { return a.begin < b.begin; });
    for (const State &state : trace.states) {
      if (!state.lasts || !state.isCopy || !(state.isOffloaded || comesBack))
        continue;
      int64_t end = state.range.begin;
      for (Range range : stored)
        if (range.begin <= end)
          end = std::max(end, range.end);
      if (end < state.range.end)
        refuse(update, "updates the parameters that @" + state.name +
                           " are copies of, and these are not stored");
    }
  }

  bool refuse(int32_t origin, const std::string &what) {
    fault = Fault{Fault::Kind::Flow, what, {{0, origin}}};
    return false;
  }

  /// Returns a state that overlaps `range` and for which `wanted` returns true;
  /// null if there is none.
  template <typename Wanted>
  const State *stateAt(Space space, Range range, Wanted wanted) const {
    if (space != Space::Persistent)
      return nullptr;
    for (const State &state : trace.states)
      if (wanted(state) && state.range.overlaps(range))
        return &state;
    return nullptr;
  }
  /// Returns the offloaded state that overlaps `range`; null if there is none.
  const State *offloadedAt(Space space, Range range) const {
    return stateAt(space, range, isTiled);
  }
  std::string nameOf(Range range) const {
    return "@" + offloadedAt(Space::Persistent, range)->name;
  }

  bool execute(const Event &event, const BodyRun &run) {
    if (event.kind == Event::Kind::Fresh)
      return true;
    if (event.updates)
      update = event.origin;
    const Access *target = nullptr, *source = nullptr;
    for (const Access &access : event.accesses)
      (access.writes ? target : source) = &access;
    if (event.kind == Event::Kind::Copy) {
      Range to = Trace::rangeOf(*target, run);
      Range from = Trace::rangeOf(*source, run);
      if (const State *state = offloadedAt(target->space, to))
        return state->hasSlots ? fill(event, to) : store(event, to, from);
      if (const State *state = offloadedAt(source->space, from))
        return state->hasSlots ? take(event, to, from) : fetch(event, to, from);
      auto lasts = [](const State &state) { return state.lasts; };
      if (const State *state = stateAt(target->space, to, lasts))
        return receive(event, *state, to, from);
      if (target->space == Space::Arena && source->space == Space::Arena)
        return carry(event, to, from);
    }
    // A table lookup (CopyRows) first reads ids, and then rows of the table. So
    // the last operand that it reads is the table, which is `source` here.
    if (event.kind == Event::Kind::CopyRows &&
        !isStored(event, Trace::rangeOf(*source, run)))
      return false;
    for (const Access &access : event.accesses) {
      if (!access.writes)
        continue;
      Range range = Trace::rangeOf(access, run);
      if (access.space == Space::Persistent)
        stored.push_back(range);
      if (access.space == Space::Arena && !write(event, run, range))
        return false;
    }
    return true;
  }

  bool store(const Event &event, Range to, Range from) {
    stored.push_back(to);
    for (StateTile &tile : tiles) {
      bool isNew = tile.state.end == 0;
      if (tile.bytes == from &&
          (isNew || (tile.updated && tile.state.begin == to.begin))) {
        tile.updated = false;
        return true;
      }
    }
    return refuse(event.origin, "writes to " + nameOf(to) +
                                    " what the optimizer has not made of the "
                                    "bytes there");
  }

  /// Handles a copy whose source is a result of a computation on the host, and
  /// whose target is a state in the device's memory.
  bool receive(const Event &event, const State &state, Range to, Range from) {
    stored.push_back(to);
    comesBack = true;
    for (const StateTile &tile : tiles)
      if (tile.bytes == from)
        return true;
    return refuse(event.origin,
                  "writes to @" + state.name + " what no update has made");
  }

  /// Handles a copy within temporary memory. If the source is a tile that was
  /// computed and not stored yet, the target becomes such a tile, too.
  bool carry(const Event &event, Range to, Range from) {
    bool isMade =
        std::any_of(tiles.begin(), tiles.end(), [&](const StateTile &tile) {
          return tile.state.end == 0 && tile.bytes == from;
        });
    if (!overwrite(event, to))
      return false;
    if (isMade)
      tiles.push_back({to, {}});
    return true;
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
      if (slot.bytes == from) {
        slot.fetched = true;
        return overwrite(event, to);
      }
    return refuse(event.origin, "fetches of " + nameOf(from) +
                                    " other bytes than were stored there");
  }

  bool isStored(const Event &event, Range from) {
    for (const StateTile &tile : tiles)
      if (tile.updated && tile.state.overlaps(from))
        return refuse(event.origin, "reads bytes of " + nameOf(from) +
                                        " that were updated and not stored");
    return true;
  }

  bool fetch(const Event &event, Range to, Range from) {
    if (!isStored(event, from) || !overwrite(event, to))
      return false;
    tiles.push_back({to, from});
    return true;
  }

  /// Forgets tiles whose bytes are overwritten.
  bool overwrite(const Event &event, Range range) {
    for (auto tile = tiles.begin(); tile != tiles.end();) {
      if (!tile->bytes.overlaps(range)) {
        ++tile;
        continue;
      }
      if (tile->updated)
        return refuse(event.origin, "overwrites a tile of " +
                                        nameOf(tile->state) +
                                        " that was updated and not stored");
      tile = tiles.erase(tile);
    }
    return true;
  }

  bool write(const Event &event, const BodyRun &run, Range range) {
    bool isRead = std::any_of(event.accesses.begin(), event.accesses.end(),
                              [&](const Access &access) {
                                return !access.writes &&
                                       access.space == Space::Arena &&
                                       Trace::rangeOf(access, run) == range;
                              });
    for (StateTile &tile : tiles)
      if (event.updates && isRead && tile.bytes == range &&
          tile.state.end > 0) {
        tile.updated = true;
        tile.origin = event.origin;
        return true;
      }
    if (!overwrite(event, range))
      return false;
    if (event.updates || event.kind == Event::Kind::Start)
      tiles.push_back({range, {}});
    return true;
  }

  const Trace &trace;
  std::list<StateTile> tiles;
  std::list<Stored> slots;
  std::vector<Range> stored; ///< The bytes of states that were stored.
  bool comesBack = false;    ///< Whether results were moved back from the host.
  int32_t update = -1;       ///< The command of the last update, or -1.
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkStateTiles(const Trace &trace) {
  return StateTileChecker(trace).run();
}
