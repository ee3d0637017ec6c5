//===- SettingsParallel.cpp - Checks a mesh against a model ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that pipeline stages, sequence lengths, ZeRO settings and the drop
// rates of layers fit the model.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Parallel.h"
#include "heddle/Settings/LayerDrop.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::config;

namespace {

/// Checks one mesh against one model.
class ParallelCheck {
public:
  ParallelCheck(ResolvedSettings &settings, const ModelSpec &spec)
      : settings(settings), values(settings.values), layers(spec.layers) {}
  void settleSchedule();
  void checkStages() const;
  void checkTokens() const;

private:
  /// Resets a setting of the pipeline to its default, and says so in the table
  /// of --explain-config.
  void drop(const char *key);

  ResolvedSettings &settings;
  Settings &values;
  int64_t layers;
};

/// Returns the divisors of `size` up to `most` as text, for example "1, 2 or
/// 4".
std::string divisorsOf(int64_t size, int64_t most) {
  std::vector<std::string> all;
  for (int64_t divisor = 1; divisor <= std::min(size, most); ++divisor)
    if (size % divisor == 0)
      all.push_back(std::to_string(divisor));
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + all[i];
  return text;
}

} // namespace

void ParallelCheck::drop(const char *key) {
  const SettingField &field = settingOf(key);
  SettingValue fallback = field.get(Settings());
  auto origin = settings.origins.find(key);
  if (field.get(values) == fallback || origin == settings.origins.end())
    return;
  settings.rows.push_back({key, settingToString(values, field),
                           origin->second.describe(), "no meaning here",
                           "one pipeline stage"});
  field.set(values, fallback);
  settings.setOrigin(key, {Origin::Kind::Derived, "pipe = 1", {}});
}

void ParallelCheck::settleSchedule() {
  if (values.pipe == 1) {
    for (const char *key : {"schedule", "virtual_stages", "pipeline_layout"})
      drop(key);
    return;
  }
  if (values.virtualStages > 1 && !settings.origins.count("schedule")) {
    values.schedule = PipelineSchedule::Interleaved;
    settings.setOrigin("schedule",
                       {Origin::Kind::Derived, "virtual_stages", {}});
  }
}

void ParallelCheck::checkStages() const {
  if (values.pipe == 1)
    return;
  // The number of micro-batches is limited: a schedule lists commands for each
  // of them, and the schedule gpipe keeps the activations of all of them.
  constexpr int64_t mostMicroBatches = 1 << 14;
  if (values.accumulate > mostMicroBatches)
    settings.failAt("H0110", "accumulate",
                    "a pipeline of " + std::to_string(values.accumulate) +
                        " micro-batches a step",
                    "give --accumulate at most " +
                        std::to_string(mostMicroBatches));
  int64_t stages = values.pipe * values.virtualStages;
  bool interleaved = values.schedule == PipelineSchedule::Interleaved;
  if (interleaved && values.virtualStages < 2)
    settings.failAt(
        "H0111", "schedule",
        "the schedule interleaved needs 2 or more virtual stages per rank",
        "add --virtual-stages 2, or use --schedule 1f1b");
  if (!interleaved && values.virtualStages > 1)
    settings.failAt(
        "H0111", "virtual_stages",
        std::string("the schedule ") + wordOf(values.schedule) +
            " has 1 virtual stage per rank, "
            "not " +
            std::to_string(values.virtualStages),
        "use --schedule interleaved, or leave out --virtual-stages");
  if (interleaved && values.accumulate % values.pipe != 0)
    settings.failAt(
        "H0111", "accumulate",
        "the schedule interleaved runs micro-batches in groups of pipe = " +
            std::to_string(values.pipe) + ", and there are " +
            std::to_string(values.accumulate),
        "give --accumulate a multiple of " + std::to_string(values.pipe) +
            ", or use --schedule 1f1b");
  if (stages > layers)
    settings.failAt("H0119", "pipe",
                    std::to_string(stages) + " stages (" +
                        std::to_string(values.pipe) + " ranks along pipe, " +
                        std::to_string(values.virtualStages) +
                        " for each) for " + std::to_string(layers) + " layers",
                    "at most " + std::to_string(layers) + " are possible");
}

void ParallelCheck::checkTokens() const {
  if (values.seq % values.sequence != 0)
    settings.failAt("H0115", "sequence",
                    "rows of " + std::to_string(values.seq) +
                        " tokens cannot be split over seq=" +
                        std::to_string(values.sequence),
                    "give --seq a multiple of " +
                        std::to_string(values.sequence) +
                        ", or seq=" + divisorsOf(values.seq, 16));
  int64_t tokens = values.seq / values.sequence;
  if (values.sequenceParallel && tokens % values.tensor != 0)
    settings.failAt(
        "H0115", "sequence_parallel",
        "sequence_parallel splits the " + std::to_string(tokens) +
            " tokens of a rank over tensor=" + std::to_string(values.tensor),
        "use tensor=" + divisorsOf(tokens, 16) +
            ", or leave out --sequence-parallel");
}

void config::fillFromModel(ResolvedSettings &settings, const ModelSpec &spec) {
  if (settings.values.zero != 3)
    return;
  int64_t width = spec.width;
  auto fill = [&](const char *key, int64_t Settings::*member, int64_t value) {
    bool isOpen =
        std::any_of(settings.unfilled.begin(), settings.unfilled.end(),
                    [&](const auto &entry) { return entry.second == key; });
    if (!isOpen)
      return;
    settings.values.*member = value;
    settings.setOrigin(
        key, {Origin::Kind::Derived, "the model's width, as the Trainer", {}});
  };
  fill("prefetch_bucket_size", &Settings::prefetchBucketSize,
       int64_t(0.9 * double(width * width)));
  fill("param_persistence_threshold", &Settings::paramPersistenceThreshold,
       10 * width);
}

void config::checkLayerDrop(const ResolvedSettings &settings, int64_t layers) {
  const Settings &values = settings.values;
  std::vector<LayerDrop> drops;
  settings.failAt(values.layerDropTheta < 1 ? "layer_drop_theta"
                                            : "layer_drop_schedule",
                  layerDrops(values, layers, drops));
}

void config::settleParallel(ResolvedSettings &settings, const ModelSpec &spec) {
  ParallelCheck check(settings, spec);
  check.settleSchedule();
  check.checkStages();
  check.checkTokens();
}
