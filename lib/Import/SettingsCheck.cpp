//===- SettingsCheck.cpp - Batch sizes and ranges -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resolves the batch, the micro-batch and the number of gradient accumulation
// steps. Checks that settings are in their ranges.
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include "heddle/Settings/Batch.h"
#include "heddle/Settings/LossScale.h"
#include "heddle/Settings/WeightQuantization.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

//===----------------------------------------------------------------------===//
// The batch triangle
//===----------------------------------------------------------------------===//

namespace {

/// One of the sizes in the equation batch = micro_batch x accumulate x data.
struct Corner {
  const char *key;
  int64_t Settings::*member;
};
constexpr Corner batchCorner = {"batch", &Settings::batch};
constexpr Corner microCorner = {"micro_batch", &Settings::microBatch};
constexpr Corner accumulateCorner = {"accumulate", &Settings::accumulate};

class BatchTriangle {
public:
  explicit BatchTriangle(Merger &merger)
      : merger(merger), settings(merger.result.values) {}
  void resolve();

private:
  bool given(const Corner &corner) const { return merger.isGiven(corner.key); }
  bool byFlag(const Corner &corner) const {
    const Origin *origin = merger.originOf(corner.key);
    return origin && origin->kind == Origin::Kind::Flag;
  }
  int64_t &value(const Corner &corner) { return settings.*corner.member; }
  /// Returns the batch that follows from the other sizes.
  int64_t product() const { return rowsOfBatch(settings); }
  void requireInRange(const Corner &corner);
  /// If flags and files together give the batch, the micro-batch and the number
  /// of accumulation steps, and these sizes contradict each other, drops one
  /// that no flag gives, since flags win.
  void dropOverridden();
  [[noreturn]] void failContradiction();
  std::string describe(const Corner &corner);

  Merger &merger;
  Settings &settings;
};

} // namespace

std::string BatchTriangle::describe(const Corner &corner) {
  const Origin *origin = merger.originOf(corner.key);
  return std::string(corner.key) + " = " + std::to_string(value(corner)) +
         " (" + (origin ? origin->describe() : "default") + ")";
}

void BatchTriangle::requireInRange(const Corner &corner) {
  const io::ValueRange &range = settingOf(corner.key).range;
  if (!given(corner) || range.holds(value(corner)))
    return;
  const Origin *origin = merger.originOf(corner.key);
  fail("H0110", describe(corner) + " is out of range",
       "give " + range.describe(), origin->location);
}

void BatchTriangle::failContradiction() {
  Diagnostic error;
  error.code = "H0109";
  error.message =
      "batch sizes contradict each other: " + std::to_string(settings.batch) +
      " is not " + std::to_string(settings.microBatch) + " x " +
      std::to_string(settings.accumulate) + " x " +
      std::to_string(settings.data) + " = " + std::to_string(product());
  for (const Corner &corner : {batchCorner, microCorner, accumulateCorner}) {
    error.notes.push_back(describe(corner));
    const Origin *origin = merger.originOf(corner.key);
    if (error.location.file.empty() && origin)
      error.location = origin->location;
    if (origin && origin->kind == Origin::Kind::File)
      merger.mark(origin->text, "refused", error.message);
  }
  error.notes.push_back("data ranks = " + std::to_string(settings.data));
  error.help = "give two of the three, and the third follows; or set "
               "train_batch_size to " +
               std::to_string(product());
  throw UserError(std::move(error));
}

void BatchTriangle::dropOverridden() {
  if (!given(batchCorner) || !given(microCorner) || !given(accumulateCorner) ||
      settings.batch == product())
    return;
  const Corner *order[3] = {&accumulateCorner, &microCorner, &batchCorner};
  if (byFlag(accumulateCorner))
    std::swap(order[0], order[1]);
  else if (!byFlag(batchCorner) && !byFlag(microCorner))
    return;
  for (const Corner *corner : order) {
    if (byFlag(*corner))
      continue;
    merger.result.origins.erase(corner->key);
    return;
  }
}

void BatchTriangle::resolve() {
  for (const Corner &corner : {batchCorner, microCorner, accumulateCorner})
    requireInRange(corner);
  dropOverridden();
  std::string derived = completeBatch(
      settings, [&](const char *key) { return merger.isGiven(key); });
  if (settings.batch != product())
    failContradiction();
  for (const Corner &corner : {batchCorner, microCorner, accumulateCorner})
    if (corner.key == derived) {
      merger.result.setOrigin(corner.key,
                              {Origin::Kind::Derived, "the other two", {}});
      requireInRange(corner);
    }
}

void config::resolveBatch(Merger &merger) { BatchTriangle(merger).resolve(); }

//===----------------------------------------------------------------------===//
// Ranges and choices
//===----------------------------------------------------------------------===//

void ResolvedSettings::failAt(const char *code, const std::string &key,
                              const std::string &message,
                              const std::string &help) const {
  auto origin = origins.find(key);
  fail(code, message, help,
       origin == origins.end() ? SourceLocation() : origin->second.location);
}

void ResolvedSettings::failAt(const std::string &key,
                              const std::string &error) const {
  if (error.empty())
    return;
  size_t message = error.find(": ") + 2, help = error.rfind("; ");
  failAt(error.substr(0, message - 2).c_str(), key,
         error.substr(message, help - message), error.substr(help + 2));
}

/// Throws an error if the value that was given for the setting is out of its
/// range. Only numbers are checked here, since words are checked when they are
/// read.
static void checkField(const ResolvedSettings &settings,
                       const SettingField &field) {
  if (!field.holds(settings.values))
    settings.failAt("H0110", field.key,
                    field.key + " = " +
                        settingToString(settings.values, field) +
                        " is out of range",
                    "give " + field.range.describe());
}

/// Returns an error (H0108) if replicas cannot send signs with these settings.
/// Empty if they can, or need not.
static std::string checkSigns(const Settings &values) {
  if (!sendsSigns(values.optimizer) || values.mode != Mode::Train)
    return "";
  std::string name = wordOf(values.optimizer), what;
  bool isLamb = values.optimizer == Optimizer::OneBitLamb;
  if (isLamb && values.pipe > 1)
    what = "pipeline stages";
  else if (isLamb && values.tensor > 1)
    what = "tensor ranks";
  else if (values.delayedUpdate)
    what = "delayed updates";
  else if (std::count(values.keep.begin(), values.keep.end(), "grads"))
    what = "--keep grads";
  else if (values.placeOptimizer != MemoryKind::Device ||
           values.placeGradients != MemoryKind::Device ||
           values.placeParameters != MemoryKind::Device)
    what = "offloaded states";
  else if (values.optimizer == Optimizer::ZeroOneAdam && values.zero > 0 &&
           values.localSteps)
    return "H0108: local steps of ZeroOneAdam with ZeRO are not supported: "
           "each replica needs all of its states; use --zero 0, or leave "
           "local_steps out";
  else
    return "";
  return "H0108: " + name + " with " + what + " is not supported; use AdamW" +
         ", or leave " + what + " out";
}

std::string config::noteOfSigns(const Settings &values) {
  if (!sendsSigns(values.optimizer) || values.mode != Mode::Train ||
      values.data * values.sequence > 1)
    return "";
  return std::string(wordOf(values.optimizer)) +
         " has nothing to compress, because the mesh has one replica; its "
         "second moment is frozen all the same";
}

void config::checkSettings(Merger &merger) {
  const ResolvedSettings &settings = merger.result;
  for (const SettingField &field : settingFields())
    if (settings.origins.count(field.key))
      merger.problems.attempt([&] { checkField(settings, field); });
  merger.problems.attempt([&] {
    settings.failAt("loss_scale_min", checkLossScale(settings.values));
    settings.failAt("optimizer", checkSigns(settings.values));
    settings.failAt("moq", checkQuantizedTraining(settings.values));
  });
}
