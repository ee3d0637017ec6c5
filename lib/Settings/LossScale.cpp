//===- LossScale.cpp - The factor of the loss's gradient ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/LossScale.h"
#include <charconv>
#include <cmath>

using namespace heddle;
using namespace heddle::config;

/// Returns the number of a static loss scale; nothing if the text is another
/// one, or the number is out of range.
static std::optional<double> parseScale(const std::string &text) {
  const char *end = text.data() + text.size();
  double scale = 0;
  auto [stop, error] = std::from_chars(text.data(), end, scale);
  if (stop != end || error != std::errc() ||
      !(scale >= Settings::leastScale && scale <= Settings::mostScale))
    return std::nullopt;
  return scale;
}

io::ValueRange config::lossScaleRange() {
  return io::ValueRange::matching(
      "dynamic, none, or a number from 1e-30 to 1e38, as 1024",
      [](const std::string &text) {
        return text == "none" || text == "dynamic" ||
               parseScale(text).has_value();
      });
}

std::optional<LossScale> config::lossScaleOf(const Settings &settings) {
  if (settings.mode != Mode::Train)
    return std::nullopt;
  LossScale scale;
  if (settings.lossScale == "dynamic") {
    scale.initial = settings.lossScaleInitial;
    scale.window = settings.lossScaleWindow;
    scale.hysteresis = settings.lossScaleHysteresis;
    scale.least = settings.lossScaleMin;
    scale.isConsecutive = settings.lossScaleConsecutive;
    return scale;
  }
  std::optional<double> number = parseScale(settings.lossScale);
  if (!number)
    return std::nullopt;
  scale.initial = scale.least = *number;
  scale.hysteresis = mostOverflows + 1;
  scale.isConsecutive = true;
  return scale;
}

std::string config::checkLossScale(const Settings &settings) {
  std::optional<LossScale> scale = lossScaleOf(settings);
  if (!scale || scale->least <= scale->initial)
    return "";
  return "H0169: the least loss scale " + io::shortestDigits(scale->least) +
         " is above the first one, " + io::shortestDigits(scale->initial) +
         "; give --loss-scale-min at most " +
         io::shortestDigits(scale->initial) +
         ", or a larger --loss-scale-initial";
}

std::string config::noteOfLossScale(const Settings &settings) {
  std::optional<LossScale> scale = lossScaleOf(settings);
  int exponent = 0;
  if (!scale || std::frexp(scale->initial, &exponent) == 0.5)
    return "";
  return "the loss scale " + io::shortestDigits(scale->initial) +
         " is no power of two, so gradients are rounded when they are "
         "scaled; " +
         io::shortestDigits(std::ldexp(1, exponent - 1)) +
         " is the next smaller one";
}
