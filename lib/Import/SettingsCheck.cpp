//===- SettingsCheck.cpp - Batch triangle, ranges, explanations -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

//===----------------------------------------------------------------------===//
// The batch triangle
//===----------------------------------------------------------------------===//

namespace {

/// One corner: batch = micro_batch x accumulate x data.
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
  int64_t product() const {
    return settings.microBatch * settings.accumulate * settings.data;
  }
  void requirePositive(const Corner &corner);
  /// Of three values of which flags say some, drops a weaker one.
  void dropOverridden();
  /// Computes the corner from the other two.
  void derive(const Corner &corner);
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

void BatchTriangle::requirePositive(const Corner &corner) {
  if (!given(corner) || (value(corner) >= 1 && value(corner) <= (1 << 30)))
    return;
  const Origin *origin = merger.originOf(corner.key);
  fail("H0110", describe(corner) + " is out of range",
       "give a whole number from 1", origin->location);
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

void BatchTriangle::derive(const Corner &corner) {
  if (corner.member == batchCorner.member) {
    value(corner) = product();
  } else {
    int64_t divisor = corner.member == microCorner.member
                          ? settings.accumulate * settings.data
                          : settings.microBatch * settings.data;
    if (settings.batch % divisor != 0) {
      value(corner) = std::max<int64_t>(1, settings.batch / divisor);
      failContradiction();
    }
    value(corner) = settings.batch / divisor;
  }
  merger.result.setOrigin(corner.key,
                          {Origin::Kind::Derived, "the other two", {}});
}

void BatchTriangle::resolve() {
  for (const Corner &corner : {batchCorner, microCorner, accumulateCorner})
    requirePositive(corner);
  dropOverridden();
  bool batch = given(batchCorner), micro = given(microCorner);
  bool accumulate = given(accumulateCorner);
  if (batch && micro && accumulate) {
    if (settings.batch != product())
      failContradiction();
  } else if (batch && micro) {
    derive(accumulateCorner);
  } else if (batch) {
    derive(microCorner);
  } else {
    derive(batchCorner);
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

namespace {

class Checker {
public:
  explicit Checker(const ResolvedSettings &settings) : settings(settings) {}

  void choice(const char *key, const std::string &value,
              const std::vector<std::string> &choices) const;
  void range(const char *key, double value, bool inRange,
             const std::string &what) const {
    if (!inRange)
      settings.failAt("H0110", key,
                      std::string(key) + " = " + nlohmann::json(value).dump() +
                          " is out of range",
                      "give " + what);
  }

  const ResolvedSettings &settings;
};

} // namespace

void Checker::choice(const char *key, const std::string &value,
                     const std::vector<std::string> &choices) const {
  if (std::find(choices.begin(), choices.end(), value) != choices.end())
    return;
  std::string all;
  for (const std::string &choice : choices)
    all += (all.empty() ? "" : ", ") + choice;
  settings.failAt("H0114", key,
                  std::string(key) + " \"" + value + "\" is not one of " + all,
                  "choose one of these");
}

static void checkChoices(const Settings &values, const Checker &checker) {
  if (values.precision == "fp16")
    checker.settings.failAt(
        "H0108", "precision", "fp16 is not supported: it needs a loss scale",
        "use bf16 (no loss scale, the same memory) or fp32");
  checker.choice("precision", values.precision, {"fp32", "bf16"});
  checker.choice("recompute", values.recompute, {"none", "selective", "full"});
  checker.choice("schedule", values.schedule,
                 {"gpipe", "1f1b", "interleaved", "zb-h1"});
  checker.choice("context", values.context, {"ulysses", "ring"});
  checker.choice("collectives", values.collectives, {"fixed", "library"});
  if (!values.communicationType.empty())
    checker.choice("communication_type", values.communicationType,
                   {"fp32", "bf16", "fp16"});
  checker.choice("march", values.march,
                 {"native", "x86-64-v3", "x86-64-v4", "amx"});
  checker.choice("target", values.target, {"x86-64", "sm_80", "sm_90"});
  checker.choice("optimizer", values.optimizer, {"AdamW", "Adam"});
}

void config::checkSettings(const ResolvedSettings &settings) {
  const Settings &values = settings.values;
  Checker checker(settings);
  checkChoices(values, checker);
  checker.range("seq", double(values.seq),
                values.seq >= 0 && values.seq < (1 << 24),
                "a number of tokens from 1");
  auto seqOrigin = settings.origins.find("seq");
  if (values.seq == 0 && seqOrigin != settings.origins.end())
    checker.range("seq", 0, false, "a number of tokens from 1");
  checker.range("threads", double(values.threads),
                values.threads >= 1 && values.threads <= 1024,
                "a number from 1 to 1024");
  checker.range("zero", double(values.zero),
                values.zero >= 0 && values.zero <= 3, "a stage from 0 to 3");
  const std::pair<const char *, int64_t> counts[] = {
      {"data", values.data},
      {"tensor", values.tensor},
      {"pipe", values.pipe},
      {"sequence", values.sequence},
      {"virtual_stages", values.virtualStages}};
  for (auto [key, count] : counts)
    checker.range(key, double(count), count >= 1 && count <= 1000000,
                  "a whole number from 1");
  checker.range("lr", values.lr, values.lr >= 0, "a number from 0");
  checker.range("beta1", values.beta1, values.beta1 >= 0 && values.beta1 < 1,
                "a number from 0 to below 1");
  checker.range("beta2", values.beta2, values.beta2 >= 0 && values.beta2 < 1,
                "a number from 0 to below 1");
  checker.range("eps", values.eps, values.eps >= 0, "a number from 0");
  checker.range("weight_decay", values.weightDecay, values.weightDecay >= 0,
                "a number from 0");
  checker.range("gradient_clipping", values.gradientClipping,
                values.gradientClipping >= 0, "a number from 0; 0 is off");
}

//===----------------------------------------------------------------------===//
// Explanations
//===----------------------------------------------------------------------===//

std::string config::formatRows(const std::string &heading,
                               const std::vector<ExplainRow> &rows) {
  if (rows.empty())
    return "";
  const std::vector<std::string ExplainRow::*> columns = {
      &ExplainRow::key, &ExplainRow::value, &ExplainRow::origin,
      &ExplainRow::verdict};
  std::vector<size_t> widths(columns.size(), 0);
  for (const ExplainRow &row : rows)
    for (size_t i = 0; i < columns.size(); ++i)
      widths[i] = std::max(widths[i], (row.*columns[i]).size());
  std::string text = heading + "\n";
  for (const ExplainRow &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string &cell = row.*columns[i];
      line += " " + cell + std::string(widths[i] - cell.size(), ' ') + " ";
    }
    line += " " + row.why;
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// Why a setting changes nothing on this mesh, or "".
static std::string whyIdle(const std::string &key, const Settings &values) {
  int64_t replicas = values.data * values.sequence;
  int64_t ranks = replicas * values.tensor * values.pipe;
  if (key == "zero" && replicas == 1)
    return "no data or seq ranks: nothing is split";
  bool isPipe =
      key == "schedule" || key == "virtual_stages" || key == "pipeline_layout";
  if (isPipe && values.pipe == 1)
    return "one pipeline stage";
  if (key == "sequence_parallel" && values.tensor == 1)
    return "one tensor rank";
  if (key == "context" && values.sequence == 1)
    return "one seq rank";
  if (key == "collectives" && ranks == 1)
    return "one rank: no collective";
  if (key == "communication_type" && replicas == 1)
    return "no data or seq ranks: no gradient travels";
  return "";
}

std::string config::explainSettings(const ResolvedSettings &settings) {
  std::vector<ExplainRow> rows;
  for (const SettingField &field : settingFields()) {
    auto found = settings.origins.find(field.key);
    Origin origin = found == settings.origins.end() ? Origin() : found->second;
    ExplainRow row{field.key, settingToString(settings.values, field),
                   origin.describe(), "applied", field.meaning};
    std::string why = whyIdle(row.key, settings.values);
    if (!why.empty()) {
      row.verdict = "no meaning here";
      row.why = why;
    }
    rows.push_back(std::move(row));
  }
  return formatRows("settings", rows) +
         formatRows("keys and flags as given", settings.rows);
}
