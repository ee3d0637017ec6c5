//===- GuardedClocks.h - What a stream knows to be done ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vector clocks of streams in steps that may skip commands, for the check of
// races. One walk over all commands covers all outcomes of the conditions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_GUARDEDCLOCKS_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_GUARDEDCLOCKS_H

#include "heddle/PlanFormat/Command.h"
#include <algorithm>
#include <array>
#include <map>

namespace heddle::prove {

/// For each stream that executes commands other than communication, how many of
/// its commands are done (a vector clock).
constexpr int numStreams = 4;
using Clock = std::array<int64_t, numStreams>;

/// The commands that are done at some point, as vector clocks: those that are
/// done in all steps, and for some guards those that are done in the steps that
/// execute commands with these guards. A wait with a guard adds to the latter.
///
/// Two commands race only in steps that execute both. So it is enough to know
/// what is done for sets of at most two guards: those of the two commands.
class GuardedClocks {
public:
  /// What is done in all steps.
  Clock always = {};

  /// Whether command `number` of a stream is done in all steps that execute
  /// commands with the guards `one` and `other`.
  bool knows(int stream, int64_t number, const plan::Guard &one,
             const plan::Guard &other) const {
    if (number < always[stream])
      return true;
    auto isIn = [&](const Guards &guards) {
      auto clock = others.find(guards);
      return clock != others.end() && number < clock->second[stream];
    };
    Key first = keyOf(one), second = keyOf(other);
    return !others.empty() && (isIn({none, first}) || isIn({none, second}) ||
                               isIn(setOf(first, second)));
  }

  /// Adds what is done at the point `to`, for which a command with the guard
  /// has waited. What would need three guards is left out.
  void advance(const GuardedClocks &to, const plan::Guard &guard) {
    if (guard.isAlways()) {
      advance(always, to.always);
      for (const auto &[guards, clock] : to.others)
        advance(others[guards], clock);
      return;
    }
    Key key = keyOf(guard);
    advance(others[{none, key}], to.always);
    for (const auto &[guards, clock] : to.others)
      if (guards.first == key || guards.second == key)
        advance(others[guards], clock);
      else if (guards.first == none)
        advance(others[setOf(guards.second, key)], clock);
  }

  /// Leaves out clocks that tell nothing: every command that they count is done
  /// in all steps, or has a number below that in `oldest`, and is never asked
  /// for.
  void prune(const Clock &oldest) {
    for (auto entry = others.begin(); entry != others.end();) {
      bool tells = false;
      for (int stream = 0; stream < numStreams; ++stream)
        tells |=
            entry->second[stream] > std::max(always[stream], oldest[stream]);
      entry = tells ? std::next(entry) : others.erase(entry);
    }
  }

  /// Leaves out what is not done in all steps.
  void forgetGuards() { others.clear(); }

private:
  /// The condition and the value of a guard.
  using Key = std::pair<int64_t, bool>;
  static constexpr Key none = {-1, true};
  /// One guard, after `none`, or two in order.
  using Guards = std::pair<Key, Key>;

  static Key keyOf(const plan::Guard &guard) {
    return {guard.condition, guard.value};
  }
  static Guards setOf(const Key &one, const Key &other) {
    return one == other ? Guards{none, one}
                        : Guards{std::min(one, other), std::max(one, other)};
  }
  static void advance(Clock &clock, const Clock &to) {
    for (int stream = 0; stream < numStreams; ++stream)
      clock[stream] = std::max(clock[stream], to[stream]);
  }

  std::map<Guards, Clock> others;
};

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_GUARDEDCLOCKS_H
