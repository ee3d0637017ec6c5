//===- Settings.h - The user's choices, and where from ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choices that a compilation depends on, merged from flags, a strategy
// file, ds_config.json and defaults, each with its origin.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_SETTINGS_H
#define HEDDLE_IMPORT_SETTINGS_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/ValueRange.h"
#include <limits>
#include <map>
#include <optional>
#include <variant>

namespace heddle::config {

/// The fields of the strategy attribute (dialects/Dist/Strategy.h), with the
/// same names and meanings.
struct Settings {
  int64_t batch = 1, microBatch = 1, accumulate = 1;
  int64_t seq = 0; ///< 0: all the positions of the model.
  std::string precision = "fp32";
  int64_t threads = 0; ///< 0: all the cores of the rank.
  std::string march = "native";
  std::string target = "x86-64";
  std::string recompute = "none";
  std::string schedule = "1f1b";
  int64_t virtualStages = 1;
  std::string pipelineLayout; ///< Empty: layers are cut by cost.
  int64_t zero = 0;
  bool sequenceParallel = false;
  std::string context = "ulysses";
  std::string collectives = "fixed";
  std::string communicationType; ///< Empty: the precision.
  int64_t memoryBudget = 0;
  static constexpr int64_t noLimit = std::numeric_limits<int64_t>::max();
  int64_t paramPersistenceThreshold = 0, modelPersistenceThreshold = noLimit;
  int64_t prefetchBucketSize = noLimit, maxLiveParameters = noLimit;
  int64_t maxReuseDistance = 1000000000;
  int64_t data = 1, tensor = 1, pipe = 1, sequence = 1;
  std::string optimizer = "AdamW";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weightDecay = 0.01;
  bool decoupled = true;
  double gradientClipping = 1.0;
  std::string noDecay;
  std::string scheduler;
  std::string schedulerParams = "{}";
  std::vector<std::string> keep;
};

using SettingMember =
    std::variant<int64_t Settings::*, double Settings::*, bool Settings::*,
                 std::string Settings::*, std::vector<std::string> Settings::*>;

/// A field of `Settings`: its key in the strategy attribute, the flag that
/// sets it ("" when there is none), the phase that uses it first, after which
/// it can no longer be changed in a dump, what it means, and which values it
/// takes.
struct SettingField {
  const char *key;
  const char *flag;
  const char *firstPhase;
  SettingMember member;
  const char *meaning;
  io::ValueRange range;
};

/// All fields, in the order in which they are explained.
const std::vector<SettingField> &settingFields();

/// The values that the field with this key takes.
const io::ValueRange &rangeOf(const std::string &key);

/// All that is wrong with a file; the first error decides the exit status.
class ConfigErrors : public UserError {
public:
  explicit ConfigErrors(std::vector<Diagnostic> all)
      : UserError(all.front()), all(std::move(all)) {}
  std::vector<Diagnostic> all;
};

/// Where a value came from.
struct Origin {
  enum class Kind { Default, Derived, Model, File, StrategyFile, Flag };
  Kind kind = Kind::Default;
  std::string text; ///< The flag, the key of the file, or what it follows from.
  SourceLocation location;
  /// As `flag --batch`, `ds_config.json:3`, `default`.
  std::string describe() const;
};

/// What the user gave on the command line.
struct Flags {
  std::optional<int64_t> batch, microBatch, accumulate, seq, zero, threads;
  std::optional<int64_t> virtualStages;
  /// Axes of the mesh, each by a flag of Megatron's.
  std::optional<int64_t> tensor, pipe, sequence;
  std::optional<std::string> precision, mesh, schedule, recompute;
  std::optional<std::string> memoryBudget, march, context, collectives, target;
  std::optional<std::string> pipelineLayout, communicationType, noDecay;
  std::optional<double> lr, weightDecay, eps;
  std::optional<std::string> betas; ///< As 0.9,0.999.
  std::optional<int64_t> warmupSteps, trainSteps;
  std::vector<std::string> keep;
  bool sequenceParallel = false, distributedOptimizer = false;
};

/// One line of `--explain-config`.
struct ExplainRow {
  std::string key, value, origin;
  std::string verdict; ///< applied, overridden, refused, no meaning here
  std::string why;
};

/// The settings with their origins, and the verdict on every key of the file.
struct ResolvedSettings {
  Settings values;
  std::map<std::string, Origin> origins; ///< By key; absent: the default.
  std::vector<ExplainRow> rows;          ///< Keys of files, in their order.
  /// What is wrong with them, in the order of the file.
  std::vector<Diagnostic> problems;
  /// Keys that are "auto" and that nothing else fills, each with the key of
  /// its setting; a schedule's parameter has its value instead.
  std::vector<std::pair<std::string, std::string>> unfilled;

  /// Sets where the value of `key` came from.
  void setOrigin(const std::string &key, Origin origin) {
    origins[key] = std::move(origin);
  }

  /// Throws a UserError that points at where the value of `key` came from.
  [[noreturn]] void failAt(const char *code, const std::string &key,
                           const std::string &message,
                           const std::string &help) const;
};

/// Merges flags over a strategy (JSON text with `strategyName` as its name; ""
/// for none) over the ds_config.json at `dsConfig` (a path, or the file itself
/// in base64; "" for none) over the defaults. Errors of the ds_config.json are
/// collected in `problems`; others are thrown.
ResolvedSettings mergeSettings(const Flags &flags, const std::string &dsConfig,
                               const std::string &strategyName = "",
                               const std::string &strategyText = "");

/// The same; throws all problems at once.
ResolvedSettings resolveSettings(const Flags &flags,
                                 const std::string &dsConfig,
                                 const std::string &strategyName = "",
                                 const std::string &strategyText = "");

/// The line that names every "auto" which got the default of Hugging Face's
/// Trainer, or Heddle's where that has none; "" when there is none such.
std::string warnOfAuto(const ResolvedSettings &settings);

/// How `--explain-config` prints.
struct ExplainStyle {
  size_t width = 80; ///< Of a line.
  bool all = false;  ///< Also what has no meaning here.
};

/// The table that `--explain-config` prints: every setting, then every key of
/// the files.
std::string explainSettings(const ResolvedSettings &settings,
                            const ExplainStyle &style = {});

/// The same for other rows, under a heading.
std::string formatRows(const std::string &heading,
                       const std::vector<ExplainRow> &rows,
                       const ExplainStyle &style = {});

/// Text whose lines are cut at `width`; what follows a cut is indented.
std::string wrapText(const std::string &text, size_t width);

/// Two numbers from 0 to below 1, as `0.9,0.999`.
std::optional<std::pair<double, double>> parseBetas(const std::string &text);

/// Bytes of a size as `16GiB`, `512MiB` or `4096`; nothing when it is none.
std::optional<int64_t> parseByteSize(const std::string &text);

/// Sizes of at least a byte, as `parseByteSize` reads them.
io::ValueRange sizeRange();

/// A value of a setting, as the table prints it.
std::string settingToString(const Settings &settings,
                            const SettingField &field);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGS_H
