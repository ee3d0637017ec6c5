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

#include "heddle/AttentionLayout/LayoutOptions.h"
#include "heddle/Import/SettingTable.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <map>

namespace heddle::config {

/// All errors that were found in a settings file. The first one decides the
/// exit status of the program.
class ConfigErrors : public UserError {
public:
  explicit ConfigErrors(std::vector<Diagnostic> all)
      : UserError(all.front()), all(std::move(all)) {}
  std::vector<Diagnostic> all;
};

/// Where the value of a setting comes from.
struct Origin {
  enum class Kind { Default, Derived, Model, File, StrategyFile, Flag };
  Kind kind = Kind::Default;
  std::string text; ///< The flag, the key of the file, or the reason of a
                    ///< derived value.
  SourceLocation location;
  /// Describes the origin for the user, for example `flag --batch`,
  /// `ds_config.json:3` or `default`.
  std::string describe() const;
};

/// The flags that were given on the command line. The key is the flag's first
/// name (`settingFlags`), the value its text. The text of a flag without a
/// value is ignored.
using Flags = std::map<std::string, std::optional<std::string>>;

/// One row of `--explain-config`.
struct ExplainRow {
  std::string key, value, origin;
  std::string verdict; ///< applied, overridden, refused, no meaning here
  std::string why;
};

/// The settings and their origins. Also says for each key of the settings files
/// whether it was applied, overridden or rejected.
struct ResolvedSettings {
  Settings values;
  /// The targets that --target names. One binary can contain code for several
  /// targets. If empty, the only target is that in `values`.
  std::vector<Target> targets;
  bool hasNoGpu = false; ///< --target auto found no GPU.
  bool isDraft = false;  ///< These are settings of a draft model (--draft).
  std::map<std::string, Origin> origins; ///< By key; absent for defaults.
  std::vector<ExplainRow> rows;          ///< The keys of files, in their order.
  /// Errors in the settings files, in the order of the file.
  std::vector<Diagnostic> problems;
  /// The section `sparse_attention` of a ds_config.json. Its options do not
  /// contradict each other, but may not fit the model or the sequence. The seed
  /// of its random blocks is not set.
  std::optional<layouts::LayoutOptions> sparseAttention;
  /// Settings that a file gives as "auto" and that no other source gives. The
  /// first string is the path of the key in the file. The second string is the
  /// key of the setting, or the default value if the key is a parameter of a
  /// schedule.
  std::vector<std::pair<std::string, std::string>> unfilled;

  /// Records where the value of `key` comes from.
  void setOrigin(const std::string &key, Origin origin) {
    origins[key] = std::move(origin);
  }

  /// Throws a UserError that points at the place where the value of `key` was
  /// given.
  [[noreturn]] void failAt(const char *code, const std::string &key,
                           const std::string &message,
                           const std::string &help) const;
  /// The same for an error that is given as one text, as `CODE: MESSAGE; HELP`.
  /// Does nothing if the text is "".
  void failAt(const std::string &key, const std::string &error) const;
};

/// The content of a settings file.
struct SettingsFile {
  std::string name; ///< The name in error messages; "" if there is no file.
  std::string text; ///< JSON.
};

/// Reads a ds_config.json. `config` is its path, or its content in base64.
/// Throws H0101 if it cannot be read.
SettingsFile readDsConfig(const std::string &config);

/// Merges flags, a strategy file, a ds_config.json and defaults. If several
/// sources give a setting, the first in this order wins. Errors in the files
/// are collected in `problems`; errors in flags are thrown.
ResolvedSettings mergeSettings(const Flags &flags,
                               const SettingsFile &dsConfig = {},
                               const SettingsFile &strategy = {});

/// Like mergeSettings, but also reads the ds_config.json. `dsConfig` is the
/// argument for readDsConfig, or "" if there is no such file. Throws all
/// problems of the files at once.
ResolvedSettings resolveSettings(const Flags &flags,
                                 const std::string &dsConfig,
                                 const std::string &strategyName = "",
                                 const std::string &strategyText = "");

/// Chooses the kind of memory in which gradients are kept until the update,
/// unless the user has chosen it. If a GPU target offloads optimizer states to
/// host memory, gradients are kept in that kind of memory too. But gradients
/// stay on the device in two cases: replicas all-reduce them there at the end
/// of a step, or delayed updates read them as soon as they are computed.
MemoryKind memoryOfGradients(const Settings &values);

/// Returns a line that lists all "auto" values of files that were replaced by a
/// default, either of Hugging Face's Trainer or of Heddle. Returns "" if there
/// are none.
std::string warnOfAuto(const ResolvedSettings &settings);
/// Returns a warning if --target auto found no GPU and therefore chose x86-64;
/// otherwise "".
std::string warnOfTarget(const ResolvedSettings &settings);
/// Returns a warning that lists flags without effect in this mode, for example
/// optimizer flags for a binary that serves. Returns "" if there are none.
std::string warnOfMode(const ResolvedSettings &settings);
/// Returns a note if the optimizer lets replicas send signs, and the mesh has
/// only one replica; otherwise "".
std::string noteOfSigns(const Settings &settings);

/// How `--explain-config` prints its table.
struct ExplainStyle {
  size_t width = 80; ///< Characters of a line.
  bool all = false;  ///< Also prints settings without effect.
};

/// Returns the table that `--explain-config` prints: all settings, then all
/// keys of the settings files.
std::string explainSettings(const ResolvedSettings &settings,
                            const ExplainStyle &style = {});

/// Prints `rows` under a heading, in the format of `explainSettings`.
std::string formatRows(const std::string &heading,
                       const std::vector<ExplainRow> &rows,
                       const ExplainStyle &style = {});

/// Breaks lines at `width`, and indents continuation lines.
std::string wrapText(const std::string &text, size_t width);

/// Parses a size in bytes: `16GiB`, `512MiB` or `4096`. Returns nothing if the
/// text is no size.
std::optional<int64_t> parseByteSize(const std::string &text);

/// The range of sizes of at least one byte, in the form that `parseByteSize`
/// reads.
io::ValueRange sizeRange();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGS_H
