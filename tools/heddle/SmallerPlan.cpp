//===- SmallerPlan.cpp - Searches flags that need less memory -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries changes of settings until a plan fits its memory budgets. Changes that
// cost little time are tried first.
//
//===----------------------------------------------------------------------===//

#include "SmallerPlan.h"
#include "heddle/Settings/OffloadedRoles.h"
#include <array>
#include <iterator>
#include <map>
#include <optional>

using namespace heddle;
using namespace heddle::driver;
using config::MemoryKind;
using config::OffloadedRole;
using config::offloadedRoles;
using config::Settings;

std::string Change::text() const {
  std::string text;
  for (const auto &[name, value] : flags)
    text += (text.empty() ? "" : " ") + name + " " + value;
  return text;
}

config::Flags Change::on(config::Flags given) const {
  for (const auto &[name, value] : flags)
    given[name] = value;
  return given;
}

/// Returns the value of --place that changes the placement from that of `now`
/// to that of `then`. It also names states that only `now` offloads: a settings
/// file may offload them, and only a flag overrides the file.
static std::string newOffloadsOf(const Settings &now, const Settings &then) {
  std::string text;
  for (const OffloadedRole &role : offloadedRoles) {
    MemoryKind kind = then.*role.place, leftOut = MemoryKind::Device;
    if (role.place == &Settings::placeGradients)
      leftOut = config::memoryOfGradients(then);
    for (MemoryKind other : {kind, leftOut, now.*role.place})
      if (other != MemoryKind::Device) {
        text += (text.empty() ? "" : ",") + std::string(role.name) + "=" +
                config::wordOf(kind);
        break;
      }
  }
  return text;
}

std::string driver::offloadsOf(const Settings &settings) {
  return newOffloadsOf(settings, settings);
}

/// Returns the number divided by its smallest prime factor.
static int64_t withoutFactor(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0)
      return number / factor;
  return 1;
}

/// Returns the flags that change the settings of a training from `now` to
/// `then`.
static Change changeTo(const Settings &now, const Settings &then) {
  Change change;
  auto add = [&](const char *name, const std::string &before,
                 const std::string &after) {
    if (before != after)
      change.flags.emplace_back(name, after);
  };
  add("--precision", wordOf(now.precision), wordOf(then.precision));
  add("--zero", std::to_string(now.zero), std::to_string(then.zero));
  add("--micro-batch", std::to_string(now.microBatch),
      std::to_string(then.microBatch));
  add("--accumulate", std::to_string(now.accumulate),
      std::to_string(then.accumulate));
  add("--recompute", wordOf(now.recompute), wordOf(then.recompute));
  add("--place", offloadsOf(now), newOffloadsOf(now, then));
  return change;
}

/// Sets the number of rows of a micro-batch. The global batch does not change.
static void setRows(Settings &settings, int64_t rows) {
  settings.accumulate *= settings.microBatch / rows;
  settings.microBatch = rows;
}

/// A list of settings to try in order. Each needs less memory and takes more
/// time than the one before. The first one that fits is therefore the fastest
/// that fits.
using Ladder = std::vector<Settings>;

/// Returns two ladders (lists of settings to try in order) that offload more
/// and more states to the memory `away`. One ladder offloads gradients before
/// parameters, the other parameters before gradients.
static std::vector<Ladder> placed(const Settings &from, MemoryKind away) {
  std::vector<Ladder> ladders;
  for (auto order : {std::array{0, 1, 2, 3}, std::array{0, 2, 1, 3}}) {
    Settings next = from;
    Ladder &ladder = ladders.emplace_back();
    for (int at : order) {
      MemoryKind Settings::*place = offloadedRoles[at].place;
      if (next.*place == MemoryKind::Device || away == MemoryKind::File)
        next.*place = away;
      ladder.push_back(next);
    }
  }
  return ladders;
}

/// Returns a ladder (a list of settings to try in order) that moves offloaded
/// states from files to the memory `to`. It moves one kind of states after the
/// other: first those that are transferred most often.
static Ladder broughtBack(const Settings &from, MemoryKind to) {
  Ladder ladder;
  Settings next = from;
  for (auto role = std::rbegin(offloadedRoles);
       role != std::rend(offloadedRoles); ++role)
    if (next.*role->place == MemoryKind::File) {
      next.*role->place = to;
      ladder.push_back(next);
    }
  return ladder;
}

/// Returns the kinds of memory other than the device's, from the fastest to the
/// slowest.
static std::vector<MemoryKind> otherMemories(const Settings &settings) {
  if (factsOf(settings.target).hasDeviceMemory)
    return {MemoryKind::Host, MemoryKind::File};
  return {MemoryKind::File};
}

static bool hasReplicas(const Settings &settings) {
  return settings.data * settings.sequence > 1;
}

static void add(std::vector<Ladder> &all, std::vector<Ladder> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

/// Returns ladders (lists of settings to try in order). All settings in one
/// ladder change the same thing: the ZeRO stage, the micro-batch, recomputation
/// or offloading.
static std::vector<Ladder> singleChanges(const Settings &settings) {
  Ladder stages, rows, recomputes, activations;
  for (int64_t stage = settings.zero + 1; hasReplicas(settings) && stage <= 3;
       ++stage)
    stages.emplace_back(settings).zero = stage;
  for (int64_t fewer = settings.microBatch; fewer > 1;) {
    fewer = withoutFactor(fewer);
    setRows(rows.emplace_back(settings), fewer);
  }
  for (config::Recompute recompute :
       {config::Recompute::Selective, config::Recompute::Full})
    if (settings.recompute < recompute)
      recomputes.emplace_back(settings).recompute = recompute;
  std::vector<Ladder> all = {stages, rows, recomputes};
  for (MemoryKind away : otherMemories(settings)) {
    add(all, placed(settings, away));
    activations.emplace_back(settings).placeActivations = away;
  }
  all.push_back(activations);
  all.push_back(broughtBack(settings, MemoryKind::Device));
  if (factsOf(settings.target).hasDeviceMemory)
    all.push_back(broughtBack(settings, MemoryKind::Host));
  return all;
}

/// Returns ladders (lists of settings to try in order) that combine full
/// recomputation, micro-batches of one row and, if there are several data
/// ranks, ZeRO-3. The first ladder adds no offloading. The others offload more
/// and more states and activations.
static std::vector<Ladder> allChanges(const Settings &settings) {
  Settings least = settings;
  least.zero = hasReplicas(settings) ? 3 : settings.zero;
  setRows(least, 1);
  least.recompute = config::Recompute::Full;
  std::vector<Ladder> all = {{least}};
  for (MemoryKind away : otherMemories(settings))
    add(all, placed(least, away));
  return all;
}

/// Returns ladders (lists of settings to try in order) with bf16 instead of
/// fp32. The first has no other change. The others also have the changes of
/// `allChanges`.
static std::vector<Ladder> narrowed(const Settings &settings) {
  std::vector<Ladder> all = allChanges(settings);
  all.insert(all.begin(), {settings});
  for (Ladder &ladder : all)
    for (Settings &next : ladder)
      if (next.precision == config::Precision::FP32)
        next.precision = config::Precision::BF16;
  return all;
}

/// Returns changes to try for a binary that serves, the cheapest first. Each
/// change is tried alone, and then together with all changes before it.
static std::vector<Change> smallerServings(const Settings &settings) {
  std::vector<Change> all;
  Change fewest;
  for (int64_t texts = settings.maxBatch / settings.data; texts > 1;) {
    texts = withoutFactor(texts);
    fewest.flags = {{"--max-batch", std::to_string(texts * settings.data)}};
    all.push_back(fewest);
  }
  Change together = fewest;
  auto add = [&](const char *name, const char *value, bool byItself = true) {
    if (byItself)
      all.push_back({{{name, value}}});
    together.flags.emplace_back(name, value);
  };
  std::vector<Change> last;
  if (settings.precision == config::Precision::FP32) {
    add("--precision", "bf16");
    last.push_back(together);
  }
  if (settings.cacheType != config::CacheType::Int8) {
    add("--kv-type", "int8");
    last.push_back(together);
  }
  if (settings.quantize == config::Quantize::None) {
    add("--quantize", "int8");
    last.push_back(together);
    together.flags.pop_back();
  }
  if (settings.quantize != config::Quantize::Int4) {
    add("--quantize", "int4", /*byItself=*/false);
    last.push_back(together);
  }
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

namespace {

/// Finds out whether the plan fits with changed settings, and how many seconds
/// a step then takes. Remembers both, so that each change of settings is
/// compiled only once.
class Search {
public:
  Search(const CostOf &costOf, std::chrono::nanoseconds time)
      : costOf(costOf), end(std::chrono::steady_clock::now() + time) {}

  bool isLate() {
    cutShort |= std::chrono::steady_clock::now() >= end;
    return cutShort;
  }
  /// Whether the plan fits with the change. Records the change if it is the
  /// fastest so far.
  bool ask(const Change &change) {
    auto [entry, isNew] = known.try_emplace(change.text());
    if (isNew)
      entry->second = costOf(change);
    if (!entry->second)
      return false;
    // Keep the first of equally fast changes.
    if (!hasFound() || *entry->second < seconds * (1 - 1e-9)) {
      best = change.text();
      seconds = *entry->second;
    }
    return true;
  }
  bool hasFound() const { return !best.empty(); }

  std::string best;
  bool cutShort = false; ///< Whether time ran out.

private:
  const CostOf &costOf;
  std::chrono::steady_clock::time_point end;
  double seconds = 0; ///< Seconds of a step with `best`.
  /// The empty change is known not to fit, since the search only starts for a
  /// plan that does not fit.
  std::map<std::string, std::optional<double>> known = {{"", std::nullopt}};
};

} // namespace

/// Finds the first settings that fit in each ladder (list of settings to try in
/// order). Of these settings, returns those that cost the least time.
static std::optional<Settings>
climb(const Settings &now, const std::vector<Ladder> &ladders, Search &search) {
  std::optional<Settings> cheapest;
  for (const Ladder &ladder : ladders)
    for (const Settings &next : ladder) {
      if (search.isLate())
        return cheapest;
      std::string before = search.best;
      if (!search.ask(changeTo(now, next)))
        continue;
      if (search.best != before)
        cheapest = next;
      break;
    }
  return cheapest;
}

/// Undoes changes of settings one by one, as long as the plan still fits.
static void takeBack(const Settings &now, Settings changed, Search &search) {
  auto without = [&](auto change) {
    Settings next = changed;
    change(next);
    std::string before = search.best;
    if (!search.isLate() && search.ask(changeTo(now, next)) &&
        search.best != before)
      changed = next;
  };
  without([&](Settings &next) { next.recompute = now.recompute; });
  without([&](Settings &next) { next.zero = now.zero; });
  without([&](Settings &next) {
    next.microBatch = now.microBatch;
    next.accumulate = now.accumulate;
  });
}

static void searchTrainings(const Settings &settings, Search &search) {
  climb(settings, singleChanges(settings), search);
  if (search.hasFound())
    return;
  if (auto found = climb(settings, allChanges(settings), search))
    return takeBack(settings, *found, search);
  // bf16 is tried last, since it changes the results of the training.
  climb(settings, narrowed(settings), search);
  if (search.cutShort && !search.hasFound())
    search.ask(changeTo(settings, narrowed(settings).back().back()));
}

static void searchServings(const Settings &settings, Search &search) {
  std::vector<Change> all = smallerServings(settings);
  for (const Change &change : all)
    if (search.isLate() || search.ask(change))
      break;
  if (search.cutShort && !search.hasFound())
    search.ask(all.back());
}

Smaller driver::findSmaller(const Settings &settings, const CostOf &costOf,
                            std::chrono::nanoseconds time) {
  Search search(costOf, time);
  if (settings.mode == config::Mode::Train)
    searchTrainings(settings, search);
  else
    searchServings(settings, search);
  return {search.best, !search.cutShort};
}
