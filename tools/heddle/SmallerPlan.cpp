//===- SmallerPlan.cpp - What makes a plan need less memory ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SmallerPlan.h"
#include <set>

using namespace heddle;
using namespace heddle::driver;
using config::MemoryKind;
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

std::string driver::placesOf(const Settings &settings) {
  std::string text;
  auto add = [&](const char *role, MemoryKind kind,
                 MemoryKind leftOut = MemoryKind::Device) {
    if (kind != MemoryKind::Device || kind != leftOut)
      text += (text.empty() ? "" : ",") + std::string(role) + "=" +
              config::wordOf(kind);
  };
  add("optimizer", settings.placeOptimizer);
  add("gradients", settings.placeGradients,
      config::memoryOfGradients(settings));
  add("parameters", settings.placeParameters);
  add("activations", settings.placeActivations);
  return text;
}

/// The number without its smallest prime factor.
static int64_t withoutFactor(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0)
      return number / factor;
  return 1;
}

/// The flags in which two settings of a training differ.
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
  add("--place", placesOf(now), placesOf(then));
  return change;
}

/// With so many rows at a time, of the same batch.
static void setRows(Settings &settings, int64_t rows) {
  settings.accumulate *= settings.microBatch / rows;
  settings.microBatch = rows;
}

/// What may be elsewhere, the cheapest first.
static constexpr MemoryKind Settings::*roles[] = {
    &Settings::placeOptimizer, &Settings::placeGradients,
    &Settings::placeParameters, &Settings::placeActivations};

/// Those of a training, the cheapest first.
static std::vector<Settings> smallerTrainings(const Settings &settings) {
  std::vector<Settings> all;
  auto add = [&](auto change) {
    Settings next = settings;
    change(next);
    all.push_back(next);
  };
  std::vector<MemoryKind> others = {MemoryKind::File};
  if (isGpu(settings.target))
    others.insert(others.begin(), MemoryKind::Host);
  bool hasReplicas = settings.data * settings.sequence > 1;
  auto setStage = [&](int64_t stage) {
    if (hasReplicas && settings.zero < stage)
      add([&](Settings &next) { next.zero = stage; });
  };
  setStage(1);
  setStage(2);
  for (int64_t rows = settings.microBatch; rows > 1;) {
    rows = withoutFactor(rows);
    add([&](Settings &next) { setRows(next, rows); });
  }
  for (config::Recompute recompute :
       {config::Recompute::Selective, config::Recompute::Full})
    if (settings.recompute < recompute)
      add([&](Settings &next) { next.recompute = recompute; });
  setStage(3);
  auto addPlaced = [&](const Settings &from) {
    for (MemoryKind away : others) {
      Settings next = from;
      for (MemoryKind Settings::*role : roles) {
        if (next.*role == MemoryKind::Device || away == MemoryKind::File)
          next.*role = away;
        all.push_back(next);
      }
    }
  };
  addPlaced(settings);
  Settings least = settings;
  least.zero = hasReplicas ? 3 : settings.zero;
  setRows(least, 1);
  least.recompute = config::Recompute::Full;
  std::vector<Settings> narrow = {settings};
  auto firstOfLeast = static_cast<ptrdiff_t>(all.size());
  all.push_back(least);
  addPlaced(least);
  narrow.insert(narrow.end(), all.begin() + firstOfLeast, all.end());
  for (Settings &next : narrow)
    next.precision = config::Precision::BF16;
  all.insert(all.end(), narrow.begin(), narrow.end());
  return all;
}

/// Those of a binary that serves, the cheapest first.
static std::vector<Change> smallerServings(const Settings &settings) {
  std::vector<Change> all;
  for (int64_t texts = settings.maxBatch; texts > 1;) {
    texts = withoutFactor(texts);
    all.push_back({{{"--max-batch", std::to_string(texts)}}});
  }
  all.push_back({{{"--precision", "bf16"}}});
  all.push_back({{{"--kv-type", "int8"}}});
  all.push_back({{{"--quantize", "int8"}}});
  all.push_back({{{"--max-batch", "1"}, {"--quantize", "int8"}}});
  all.push_back({{{"--max-batch", "1"}, {"--quantize", "int4"}}});
  return all;
}

Smaller driver::findSmaller(const Settings &settings,
                            const std::function<bool(const Change &)> &fits,
                            std::chrono::nanoseconds time) {
  std::vector<Change> all;
  if (settings.mode == config::Mode::Train)
    for (const Settings &next : smallerTrainings(settings))
      all.push_back(changeTo(settings, next));
  else
    all = smallerServings(settings);
  auto end = std::chrono::steady_clock::now() + time;
  bool isLate = false;
  std::set<std::string> tried = {""};
  for (const Change &change : all) {
    bool isLast = &change == &all.back();
    isLate |= !isLast && std::chrono::steady_clock::now() >= end;
    if (isLate && !isLast)
      continue;
    if (tried.insert(change.text()).second && fits(change))
      return {change.text(), !isLate};
  }
  return {"", !isLate};
}
