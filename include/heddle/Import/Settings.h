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

#include "heddle/Import/SettingTable.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <map>

namespace heddle::config {

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

/// What the user gave on the command line: the text of each flag, by the first
/// of its names (`settingFlags`); that of a switch is of no matter.
using Flags = std::map<std::string, std::optional<std::string>>;

/// One line of `--explain-config`.
struct ExplainRow {
  std::string key, value, origin;
  std::string verdict; ///< applied, overridden, refused, no meaning here
  std::string why;
};

/// The settings with their origins, and the verdict on every key of the file.
struct ResolvedSettings {
  Settings values;
  /// What --target asks for: one binary for all of them. Empty: `values` says.
  std::vector<Target> targets;
  bool hasNoGpu = false;                 ///< --target auto found none here.
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

/// A file of settings that was read.
struct SettingsFile {
  std::string name; ///< For errors; "": there is none.
  std::string text; ///< JSON.
};

/// Reads the ds_config.json at `config`: a path, or the file itself in base64.
/// Throws H0101 for one that cannot be read.
SettingsFile readDsConfig(const std::string &config);

/// Merges flags over a strategy over a ds_config.json over the defaults. Errors
/// of files are collected in `problems`; those of flags are thrown.
ResolvedSettings mergeSettings(const Flags &flags,
                               const SettingsFile &dsConfig = {},
                               const SettingsFile &strategy = {});

/// The same of the ds_config.json that `dsConfig` is (as for readDsConfig; "":
/// none), and a strategy; throws all problems at once.
ResolvedSettings resolveSettings(const Flags &flags,
                                 const std::string &dsConfig,
                                 const std::string &strategyName = "",
                                 const std::string &strategyText = "");

/// Where gradients wait for their update that nobody has placed: with the
/// optimizer's states where these are beside a GPU, unless that would cost the
/// device what it is to save, or updates their place beside the backward pass.
MemoryKind memoryOfGradients(const Settings &values);

/// The line that names every "auto" which got the default of Hugging Face's
/// Trainer, or Heddle's where that has none; "" when there is none such.
std::string warnOfAuto(const ResolvedSettings &settings);
/// Says that --target auto means this CPU, where it found no GPU; else "".
std::string warnOfTarget(const ResolvedSettings &settings);
/// Names flags that do nothing in the mode, as of an optimizer in a binary that
/// serves, and says why; empty where there is none.
std::string warnOfMode(const ResolvedSettings &settings);

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

/// Bytes of a size as `16GiB`, `512MiB` or `4096`; nothing when it is none.
std::optional<int64_t> parseByteSize(const std::string &text);

/// Sizes of at least a byte, as `parseByteSize` reads them.
io::ValueRange sizeRange();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGS_H
