//===- RunLog.cpp - The log of a run --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunLog.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"
#include <map>
#include <sstream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// The fields of a step that have a curve, with the curve's name.
static constexpr std::pair<const char *, const char *> curveNames[] = {
    {"loss", "loss"},
    {"grad_norm", "norm of the gradients"},
    {"lr", "learning rate"},
    {"tokens_per_s", "tokens per second"},
    {"loss_scale", "loss scale"},
    {"kept_layers", "layers that were kept"},
    {"time_s", "seconds of a step"}};

static void addStep(const json &step, std::map<std::string, RunCurve> &curves) {
  auto number = step.at("step").get<double>();
  for (const auto &[key, name] : curveNames) {
    auto found = step.find(key);
    if (found == step.end() || found->is_null())
      continue;
    double value =
        found->is_array() ? double(found->size()) : found->get<double>();
    curves[key].points.emplace_back(number, value);
  }
}

/// Keeps at most 2000 points, evenly spaced, so that the page of a long run
/// stays small. The first and the last point stay.
static void thinOut(std::vector<std::pair<double, double>> &points) {
  constexpr size_t most = 2000;
  if (points.size() <= most)
    return;
  std::vector<std::pair<double, double>> kept;
  for (size_t i = 0; i < most; ++i)
    kept.push_back(points[i * (points.size() - 1) / (most - 1)]);
  points = std::move(kept);
}

RunLog driver::readRunLog(const std::string &path, const plan::Plan &plan) {
  const char *help = "give the file that BINARY train --log FILE wrote";
  std::istringstream lines(io::readText(path, "H0388"));
  RunLog log;
  std::map<std::string, RunCurve> curves;
  bool hasStart = false;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    // A run that is still writing, or that was killed, may end within a line.
    if (event.is_discarded() && lines.peek() == EOF && hasStart)
      break;
    try {
      std::string kind = event.at("event");
      if (kind == "start" && event.at("plan") != plan.hash)
        fail("H0388", path + " is a log of another plan", help);
      hasStart |= kind == "start";
      if (kind == "step") {
        addStep(event, curves);
        ++log.steps;
      }
      if (kind != "step" || event.value("skipped", false))
        log.events.push_back(event);
    } catch (const json::exception &) {
      fail("H0388",
           path + " is no log: line " + std::to_string(number) +
               " is no event of a run",
           help);
    }
  }
  if (!hasStart)
    fail("H0388", path + " is no log: it does not say of which plan it is",
         help);
  for (const auto &[key, name] : curveNames)
    if (auto found = curves.find(key); found != curves.end()) {
      found->second.name = name;
      thinOut(found->second.points);
      log.curves.push_back(std::move(found->second));
    }
  return log;
}
