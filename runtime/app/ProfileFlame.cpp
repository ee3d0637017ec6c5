//===- ProfileFlame.cpp - A training step for speedscope ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepProfile.h"
#include "Trace.h"

#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

namespace {

/// Writes the events of a profile: frames that open and close at times that
/// never decrease.
class FlameEvents {
public:
  /// Adds a command: a frame inside of the frames of the modules in `path`.
  void add(const std::string &path, const std::string &name, int64_t begin,
           int64_t end);
  /// Closes all frames except the outermost `left`.
  void close(size_t left);

  json frames = json::array(), events = json::array();
  int64_t now = 0;

private:
  size_t frameOf(const std::string &name);
  void addEvent(const char *type, size_t frame) {
    events.push_back({{"type", type}, {"frame", frame}, {"at", now}});
  }

  std::map<std::string, size_t> known;
  std::vector<size_t> open; ///< The open frames of modules, outermost first.
};

} // namespace

size_t FlameEvents::frameOf(const std::string &name) {
  auto [entry, isNew] = known.try_emplace(name, frames.size());
  if (isNew)
    frames.push_back({{"name", name}});
  return entry->second;
}

void FlameEvents::close(size_t left) {
  for (; open.size() > left; open.pop_back())
    addEvent("C", open.back());
}

void FlameEvents::add(const std::string &path, const std::string &name,
                      int64_t begin, int64_t end) {
  std::vector<size_t> stack;
  for (size_t dot = 0; !path.empty() && dot != std::string::npos;) {
    dot = path.find('.', dot + 1);
    stack.push_back(frameOf(path.substr(0, dot)));
  }
  auto differs =
      std::mismatch(open.begin(), open.end(), stack.begin(), stack.end()).first;
  close(differs - open.begin());
  now = std::max(now, begin);
  for (size_t level = open.size(); level < stack.size(); ++level) {
    addEvent("O", stack[level]);
    open.push_back(stack[level]);
  }
  size_t frame = frameOf(name);
  addEvent("O", frame);
  now = std::max(now, end);
  addEvent("C", frame);
}

json heddle::rt::flameJson(const plan::Plan &plan, const CommandList &commands,
                           const LaunchTime *times, int64_t step,
                           int64_t rank) {
  FlameEvents flame;
  int64_t first = -1;
  for (size_t i = 0; i < commands.size(); ++i) {
    const LaunchInfo &info = commands.info(i);
    if (times[i].isSkipped() || copiesFile(*info.command))
      continue;
    if (first < 0)
      first = times[i].begin;
    std::string path;
    if (info.kernel() >= 0)
      path = plan.kernels[info.kernel()].updates
                 ? "optimizer"
                 : moduleOf(plan, *info.command, 0, info.layerPath());
    flame.add(path, launchName(plan, info), times[i].begin - first,
              times[i].end - first);
  }
  flame.close(0);
  std::string name =
      "step " + std::to_string(step) + ", rank " + std::to_string(rank);
  return {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
          {"exporter", "heddle"},
          {"name", name},
          {"shared", {{"frames", flame.frames}}},
          {"profiles", json::array({{{"type", "evented"},
                                     {"name", name},
                                     {"unit", "nanoseconds"},
                                     {"startValue", 0},
                                     {"endValue", flame.now},
                                     {"events", flame.events}}})}};
}
