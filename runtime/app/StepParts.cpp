//===- StepParts.cpp - How long the parts of a step took ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/StepParts.h"
#include "heddle/runtime/core/ModuleCosts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

bool heddle::rt::copiesFile(const plan::Command &command) {
  constexpr plan::MemoryKind file = plan::MemoryKind::File;
  if (const auto *rows = command.as<plan::command::CopyRows>())
    return rows->source.memory == file;
  const auto *copy = command.as<plan::command::Copy>();
  return copy && (copy->target.memory == file || copy->source.memory == file);
}

std::string heddle::rt::formatMilliseconds(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%.3f ms", 1e3 * seconds);
  return text;
}

double StepParts::notCovered() const {
  return seconds - forward - backward - optimizer - waits - copies;
}

std::vector<std::pair<const char *, double>> StepParts::list() const {
  return {{"forward", forward},     {"backward", backward},
          {"optimizer", optimizer}, {"waits", waits},
          {"copies", copies},       {"not_covered", notCovered()}};
}

void StepParts::addTo(JsonLine &line) const {
  nlohmann::ordered_json parts;
  for (const auto &[name, took] : list())
    parts[std::string(name) + "_s"] = took;
  line.addRaw("breakdown", parts.dump());
}

std::string StepParts::text() const {
  std::string text;
  for (const auto &[name, took] : list()) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    text += (text.empty() ? "" : ", ") + label + " " + formatMilliseconds(took);
  }
  return text;
}

namespace {

/// Finds out whether a command belongs to the backward pass. In a pipeline the
/// schedule says so. Otherwise the backward pass begins after the loss, and
/// ends with the micro-batch.
class PassFinder {
public:
  explicit PassFinder(const plan::Plan &plan) : plan(plan) {}

  /// Returns whether the next command of the program is in the backward pass.
  bool isBackward(const LaunchInfo &info) {
    if (info.fragment.kind) {
      backward = true; // Of the commands after the schedule.
      return info.fragment.kind->kind != plan::FragmentKind::Forward;
    }
    // A loop repeats its commands. So a command outside of layers is in the
    // same pass in each micro-batch, and tells when the next one begins.
    if (!info.layer)
      backward = known.try_emplace(info.command, backward).first->second;
    bool result = backward;
    if (info.kernel() >= 0 && !info.layer)
      for (size_t i = 0; i < plan.kernels[info.kernel()].shares.size(); ++i)
        backward |= moduleOf(plan, *info.command, i, "") == "loss";
    return result;
  }

private:
  const plan::Plan &plan;
  bool backward = false;
  std::map<const plan::Command *, bool> known;
};

} // namespace

StepParts heddle::rt::partsOfStep(const plan::Plan &plan,
                                  const CommandList &commands,
                                  const LaunchTime *times,
                                  const ModuleLaunch &launch) {
  StepParts parts;
  PassFinder passes(plan);
  for (size_t i = 0; i < commands.size(); ++i) {
    const LaunchInfo &info = commands.info(i);
    bool isBackward = passes.isBackward(info);
    if (times[i].isSkipped()) {
      parts.skipsLayers |= info.layer != nullptr;
      continue;
    }
    double seconds = double(times[i].end - times[i].begin) * 1e-9;
    using namespace plan::command;
    if (copiesFile(*info.command)) {
      parts.fileCopies += seconds;
      continue;
    }
    if (info.kernel() < 0) {
      bool moves = info.command->as<Copy>() || info.command->as<CopyRows>() ||
                   info.command->as<Fill>();
      (moves ? parts.copies : parts.waits) += seconds;
      continue;
    }
    const plan::Kernel &kernel = plan.kernels[info.kernel()];
    parts.launches += 1;
    if (seconds > 0)
      parts.bestRate = std::max(parts.bestRate, kernel.flops / seconds);
    if (kernel.updates) {
      parts.optimizer += seconds;
      continue;
    }
    parts.sharedLaunches += kernel.shares.size() > 1;
    (isBackward ? parts.backward : parts.forward) += seconds;
    if (launch)
      launch(info, isBackward, seconds);
  }
  return parts;
}
