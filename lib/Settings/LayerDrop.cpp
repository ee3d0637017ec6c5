//===- LayerDrop.cpp - Which layers a training step may skip --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/LayerDrop.h"
#include <algorithm>
#include <charconv>

using namespace heddle;
using namespace heddle::config;

/// Parses drop rates, for example `0.0,0.05,0.1`. Returns nothing if an element
/// is no number, or is not in [0, 1). A rate of 1 is excluded because kept
/// branches are scaled by 1 / (1 - rate).
static std::optional<std::vector<double>> parseRates(const std::string &text) {
  std::vector<double> rates;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    const char *last = text.data() + end;
    double rate = 0;
    auto [stop, error] = std::from_chars(text.data() + begin, last, rate);
    if (stop != last || error != std::errc() || !(rate >= 0 && rate < 1))
      return std::nullopt;
    rates.push_back(rate);
    begin = end + 1;
  }
  return rates;
}

io::ValueRange config::dropRatesRange() {
  return io::ValueRange::matching(
      "numbers from 0 to below 1, with commas between them, as 0.0,0.05,0.1",
      [](const std::string &text) { return parseRates(text).has_value(); });
}

bool config::dropsLayers(const Settings &settings) {
  return settings.mode == Mode::Train &&
         (settings.layerDropTheta < 1 || !settings.layerDropSchedule.empty());
}

bool config::sumsGradients(const Settings &settings) {
  return settings.accumulate > 1 || dropsLayers(settings);
}

/// Sets `drops` to the constant drop rates of the setting `layerDropSchedule`.
/// Returns an error or "", as `layerDrops` does.
static std::string constantDrops(const Settings &settings, int64_t layers,
                                 std::vector<LayerDrop> &drops) {
  auto rates = parseRates(settings.layerDropSchedule);
  if (!rates)
    return "H0110: the drop rates \"" + settings.layerDropSchedule +
           "\" are out of range; give " + dropRatesRange().describe();
  const auto count = int64_t(rates->size());
  if (layers > 0 && count > 1 && count != layers)
    return "H0157: the model has " + std::to_string(layers) +
           (layers == 1 ? " layer" : " layers") +
           ", and --layer-drop-schedule gives " + std::to_string(count) +
           " drop rates; give one rate for all layers, or " +
           std::to_string(layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    LayerDrop drop;
    drop.rate = (*rates)[count == 1 ? 0 : layer];
    drops.push_back(drop);
  }
  return "";
}

std::string config::layerDrops(const Settings &settings, int64_t layers,
                               std::vector<LayerDrop> &drops) {
  drops.clear();
  if (!dropsLayers(settings))
    return "";
  const bool isProgressive = settings.layerDropTheta < 1;
  if (isProgressive && !settings.layerDropSchedule.empty())
    return "H0156: layers are dropped progressively (--layer-drop, or "
           "\"progressive_layer_drop\" of ds_config.json) and at constant "
           "rates (--layer-drop-schedule), and a plan has one of the two; "
           "leave out one of them";
  if (!isProgressive)
    return constantDrops(settings, layers, drops);
  for (int64_t layer = 1; layer <= layers; ++layer) {
    LayerDrop drop;
    drop.rate = double(layer) / double(layers);
    drop.isProgressive = true;
    drop.theta = settings.layerDropTheta;
    drop.gamma = settings.layerDropGamma;
    drops.push_back(drop);
  }
  return "";
}
