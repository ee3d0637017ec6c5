//===- SettingTable.h - The rows of Settings.def at run time ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of all settings. Flags, ds_config.json, strategies, tables and
// checks are derived from its rows.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_SETTINGTABLE_H
#define HEDDLE_IMPORT_SETTINGTABLE_H

#include "heddle/Settings/Settings.h"
#include "heddle/runtime/io/ValueRange.h"

namespace heddle::io {
class JsonValue;
} // namespace heddle::io

namespace heddle::config {

class Merger;
struct SettingField;

//===----------------------------------------------------------------------===//
// Keys of a ds_config.json
//===----------------------------------------------------------------------===//

/// JSON types that the value of a key may have. They are bits, which can be
/// combined.
enum DsType : unsigned {
  DsBool = 1,
  DsInt = 2, ///< Also a float with an integral value, as 5e8.
  DsNumber = 4,
  DsString = 8,
  DsList = 16,
  DsObject = 32,
  DsNull = 64,
  DsAuto = 128, ///< The string "auto".
};

/// What happens to a key of a ds_config.json.
enum class DsRule {
  Section, ///< A section whose members have rules of their own.
  Gated,   ///< A section that is rejected if its member `enabled` is true, and
           ///< has no effect otherwise.
  Applied, ///< It gives a setting.
  Ignored, ///< It has no effect; `why` gives the reason.
  Neutral, ///< Rejected unless its value is one of `neutral`.
};

/// Reads the value of a key into its setting.
using DsReader = void (*)(const SettingField &, const io::JsonValue &,
                          Merger &);

struct DsKey {
  /// The path of the key from the root of the file. A segment `*` matches any
  /// name.
  std::string path;
  unsigned types;
  DsRule rule;
  const char *why = "";
  /// Values without effect, as a JSON list.
  const char *neutral = "[false, null]";
  DsReader read = nullptr; ///< For the key of a setting.
  /// The key of a setting. If a flag or a strategy gives that setting, the
  /// section at `path` is not rejected.
  const char *yieldsTo = "";
};

/// All known keys: those of settings and those without one.
const std::vector<DsKey> &dsKeys();

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// A flag of `heddle compile`.
struct SettingFlag {
  /// Reads a flag into settings.
  using Merge = void (*)(const SettingFlag &, const std::string &text,
                         Merger &);
  std::string names; ///< As `--batch,--global-batch-size`.
  const char *group;
  const char *help;
  const char *shown; ///< Shown instead of a default.
  io::ValueRange range;
  const char *type; ///< INT, FLOAT or TEXT; "" for a flag without a value.
  Merge merge;
  std::string key; ///< Key of its setting; "" if there are several.

  /// Whether the flag may be given several times. Its text then has one line
  /// for each time.
  bool isRepeatable() const;
  /// The first name.
  std::string name() const { return names.substr(0, names.find(',')); }
};

/// All flags, in the order of the help.
const std::vector<SettingFlag> &settingFlags();

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

/// A row of Settings.def. The rows call these functions by name.
struct SettingField : Setting {
  explicit SettingField(const Setting &setting) : Setting(setting) {}

  /// The first and the last phase that reads the setting. After the first one,
  /// changing the setting in a dump has no effect.
  std::string firstPhase, lastPhase;
  std::string meaning;
  /// Returns the reason why the setting has no effect on this mesh, or "".
  const char *(*whyIdle)(const Settings &) = nullptr;
  std::vector<SettingFlag> flags;
  std::vector<DsKey> keys;
  /// Reads the parts of the setting that depend on several keys. Called after
  /// all keys were read.
  void (*readAfter)(const io::JsonValue &root, Merger &) = nullptr;
  /// The meaning of "auto" for Hugging Face's Trainer, if it is not the
  /// default.
  std::optional<SettingValue> trainerDefault;
  /// The value that tables print for a setting that no source gives, if that is
  /// not the default.
  std::string whenLeftOut;
  /// A word that is known but not supported (H0108).
  struct Refused {
    std::string word, why, help;
  };
  std::optional<Refused> refused;
  /// Combines the values of two sources, if a value may be incomplete. Null:
  /// the stronger value is used alone.
  using Combine = SettingValue (*)(const SettingValue &stronger,
                                   const SettingValue &weaker);
  Combine combine = nullptr;

  SettingField &phases(const char *first, const char *last);
  SettingField &means(const char *text);
  SettingField &idle(const char *(*why)(const Settings &));
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown);
  /// Adds a flag whose text needs a reader of its own.
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown, io::ValueRange range,
                     SettingFlag::Merge merge);
  /// Adds a flag without a value.
  SettingField &switchOn(const char *names, const char *group,
                         const char *help);
  SettingField &switchOn(const char *names, const char *group, const char *help,
                         SettingFlag::Merge merge);
  SettingField &ds(const char *path, unsigned types, const char *why = "");
  SettingField &ds(const char *path, unsigned types, const char *why,
                   DsReader read);
  /// Adds a section that may have a value instead of members.
  SettingField &dsSection(const char *path, unsigned types, DsReader read);
  SettingField &dsKeys(std::vector<DsKey> more);
  SettingField &dsAfter(void (*read)(const io::JsonValue &root, Merger &));
  SettingField &trainer(SettingValue value);
  SettingField &leftOut(const char *what);
  SettingField &refuses(const char *word, const char *why, const char *help);
  SettingField &combines(Combine with);
};

/// All settings, in the order of explanations.
const std::vector<SettingField> &settingFields();

/// The setting with this key, or null.
const SettingField *findSetting(const std::string &key);

/// The setting with this key, which must exist.
const SettingField &settingOf(const std::string &key);

/// The value of a setting, as tables print it.
std::string settingToString(const Settings &settings,
                            const SettingField &field);

/// The reference of all settings in Markdown: docs/reference/settings.md.
std::string settingsReference();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGTABLE_H
