//===- Settings.h - The user's settings and their origins -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The settings of a compilation, merged from flags, a strategy file,
// ds_config.json and defaults, with the origin of each.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_SETTINGS_H
#define HEDDLE_IMPORT_SETTINGS_H

#include "heddle/Import/SettingTable.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <map>

namespace heddle::config {

/// All errors of a file. The first one decides the exit status.
class ConfigErrors : public UserError {
public:
  explicit ConfigErrors(std::vector<Diagnostic> all)
      : UserError(all.front()), all(std::move(all)) {}
  std::vector<Diagnostic> all;
};

/// The source of a value.
struct Origin {
  enum class Kind { Default, Derived, Model, File, StrategyFile, Flag };
  Kind kind = Kind::Default;
  std::string text; ///< The flag, the key of the file, or the reason of a
                    ///< derived value.
  SourceLocation location;
  /// As `flag --batch`, `ds_config.json:3` or `default`.
  std::string describe() const;
};

/// The flags of the command line: the text of each flag by its first name
/// (`settingFlags`). The text of a switch is ignored.
using Flags = std::map<std::string, std::optional<std::string>>;

/// One row of `--explain-config`.
struct ExplainRow {
  std::string key, value, origin;
  std::string verdict; ///< applied, overridden, refused, no meaning here
  std::string why;
};

/// The settings with their origins, and a verdict on each key of the files.
struct ResolvedSettings {
  Settings values;
  /// The targets of --target: one binary contains all of them. Empty: only the
  /// target in `values`.
  std::vector<Target> targets;
  bool hasNoGpu = false;                 ///< --target auto found no GPU.
  std::map<std::string, Origin> origins; ///< By key; absent: the default.
  std::vector<ExplainRow> rows;          ///< The keys of files, in their order.
  /// Errors in the settings files, in the order of the file.
  std::vector<Diagnostic> problems;
  /// Keys of files that are "auto" and that no other source fills. The second
  /// string is the key of the setting, or the default value if the key is a
  /// parameter of a schedule.
  std::vector<std::pair<std::string, std::string>> unfilled;

  /// Sets the origin of the value of `key`.
  void setOrigin(const std::string &key, Origin origin) {
    origins[key] = std::move(origin);
  }

  /// Throws a UserError that points at the origin of the value of `key`.
  [[noreturn]] void failAt(const char *code, const std::string &key,
                           const std::string &message,
                           const std::string &help) const;
};

/// The content of a settings file.
struct SettingsFile {
  std::string name; ///< For errors; "": no file.
  std::string text; ///< JSON.
};

/// Reads the ds_config.json at `config`: a path, or the file itself in base64.
/// Throws H0101 if it cannot be read.
SettingsFile readDsConfig(const std::string &config);

/// Merges flags, a strategy, a ds_config.json and defaults; earlier sources
/// win. Errors of files are collected in `problems`, and errors of flags
/// thrown.
ResolvedSettings mergeSettings(const Flags &flags,
                               const SettingsFile &dsConfig = {},
                               const SettingsFile &strategy = {});

/// Like mergeSettings, but reads the ds_config.json: `dsConfig` is the argument
/// of readDsConfig, or "" for none. Throws all problems at once.
ResolvedSettings resolveSettings(const Flags &flags,
                                 const std::string &dsConfig,
                                 const std::string &strategyName = "",
                                 const std::string &strategyText = "");

/// Chooses the kind of memory in which gradients wait for the update, unless
/// the user has placed them. On a GPU target that is the host memory of
/// offloaded optimizer states. Gradients stay on the device if replicas
/// all-reduce them there at the end of a step, or if delayed updates read them
/// early.
MemoryKind memoryOfGradients(const Settings &values);

/// A line that lists all "auto" values which got the default of Hugging Face's
/// Trainer, or Heddle's; "" if there are none.
std::string warnOfAuto(const ResolvedSettings &settings);
/// A warning if --target auto found no GPU and chose x86-64; else "".
std::string warnOfTarget(const ResolvedSettings &settings);
/// A warning that lists flags without effect in this mode, for example flags of
/// the optimizer for a binary that serves; "" if there are none.
std::string warnOfMode(const ResolvedSettings &settings);

/// The options with which `--explain-config` prints.
struct ExplainStyle {
  size_t width = 80; ///< Characters of a line.
  bool all = false;  ///< Also prints settings without effect.
};

/// The table of `--explain-config`: all settings, then all keys of the files.
std::string explainSettings(const ResolvedSettings &settings,
                            const ExplainStyle &style = {});

/// Prints other rows in the format of `explainSettings`, with a heading.
std::string formatRows(const std::string &heading,
                       const std::vector<ExplainRow> &rows,
                       const ExplainStyle &style = {});

/// Breaks lines at `width`, and indents continuation lines.
std::string wrapText(const std::string &text, size_t width);

/// Parses a size: `16GiB`, `512MiB` or `4096`. Nothing if the text is no size.
std::optional<int64_t> parseByteSize(const std::string &text);

/// Sizes of at least one byte, in the form that `parseByteSize` reads.
io::ValueRange sizeRange();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGS_H
