//===- SettingTable.h - The rows of Settings.def at run time ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of all settings. Each row describes a setting. The flags, the keys
// of ds_config.json and of strategy files, the help texts and the range checks
// are derived from the rows.
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

/// The JSON types that the value of a key may have. Each is a bit, so that a
/// key can allow several.
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

/// How a key of a ds_config.json is treated.
enum class DsRule {
  Section, ///< A section whose members each have a rule.
  /// A section that is rejected if its member `enabled` is true. Otherwise the
  /// section has no effect.
  Gated,
  Applied, ///< The key gives a setting.
  Ignored, ///< The key has no effect; `why` gives the reason.
  Neutral, ///< Rejected unless the key's value is one of `neutral`.
};

/// A function that reads the value of a key and gives it to the key's setting.
using DsReader = void (*)(const SettingField &, const io::JsonValue &,
                          Merger &);

struct DsKey {
  /// The path of the key from the root of the file. A segment `*` matches any
  /// name.
  std::string path;
  unsigned types;
  DsRule rule;
  const char *why = "";
  /// Only with DsRule::Neutral: the values that are accepted because they have
  /// no effect, as a JSON list.
  const char *neutral = "[false, null]";
  DsReader read = nullptr; ///< Reads the key, if its rule is Applied.
  /// The key of a setting that replaces this section. If a flag or a strategy
  /// file gives that setting, the section is accepted though it would otherwise
  /// be rejected.
  const char *yieldsTo = "";
};

/// All known keys of a ds_config.json: those that give a setting and those that
/// do not.
const std::vector<DsKey> &dsKeys();

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// A flag of `heddle compile`.
struct SettingFlag {
  /// A function that reads the text of a flag and gives the value to the flag's
  /// setting.
  using Merge = void (*)(const SettingFlag &, const std::string &text,
                         Merger &);
  std::string names; ///< For example `--batch,--global-batch-size`.
  const char *group;
  const char *help;
  const char *shown; ///< Printed by the help instead of a default.
  io::ValueRange range;
  const char *type; ///< INT, FLOAT or TEXT; "" for a flag without a value.
  Merge merge;
  std::string key; ///< Key of the flag's setting; "" if it has several.

  /// Whether the flag may be given several times. Its text then has one line
  /// for each time that it is given.
  bool isRepeatable() const;
  /// The first name.
  std::string name() const { return names.substr(0, names.find(',')); }
};

/// All flags, in the order in which the help lists them.
const std::vector<SettingFlag> &settingFlags();

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

/// A setting: a row of Settings.def, which makes the setting by calling the
/// functions below.
struct SettingField : Setting {
  explicit SettingField(const Setting &setting) : Setting(setting) {}

  /// The first and the last phase of the compiler that read the setting. A dump
  /// that was written after `firstPhase` depends on the setting already. If the
  /// user compiles such a dump with another value, this is an error.
  std::string firstPhase, lastPhase;
  std::string meaning;
  /// Returns the reason why the setting has no effect with the given settings.
  /// Returns "" if the setting has an effect.
  const char *(*whyIdle)(const Settings &) = nullptr;
  std::vector<SettingFlag> flags;
  std::vector<DsKey> keys;
  /// Reads a setting that depends on several keys of a ds_config.json. It is
  /// called after all keys were read one by one.
  void (*readAfter)(const io::JsonValue &root, Merger &) = nullptr;
  /// The value that "auto" means for Hugging Face's Trainer, if it differs from
  /// the setting's default.
  std::optional<SettingValue> trainerDefault;
  /// The value that tables print if nobody gives the setting. Empty if they
  /// print the default.
  std::string whenLeftOut;
  /// Combines the values of two sources of a setting, for settings whose value
  /// may be given in parts. If null, the stronger source's value is used alone.
  using Combine = SettingValue (*)(const SettingValue &stronger,
                                   const SettingValue &weaker);
  Combine combine = nullptr;

  SettingField &phases(const char *first, const char *last);
  SettingField &means(const char *text);
  SettingField &idle(const char *(*why)(const Settings &));
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown);
  /// Adds a flag whose text is read by `merge`, since the setting's type does
  /// not say how.
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown, io::ValueRange range,
                     SettingFlag::Merge merge);
  /// Adds a flag without a value, which sets the setting to true.
  SettingField &switchOn(const char *names, const char *group,
                         const char *help);
  SettingField &switchOn(const char *names, const char *group, const char *help,
                         SettingFlag::Merge merge);
  SettingField &ds(const char *path, unsigned types, const char *why = "");
  SettingField &ds(const char *path, unsigned types, const char *why,
                   DsReader read);
  /// Adds a section of ds_config.json that may also be a single value instead
  /// of an object.
  SettingField &dsSection(const char *path, unsigned types, DsReader read);
  SettingField &dsKeys(std::vector<DsKey> more);
  SettingField &dsAfter(void (*read)(const io::JsonValue &root, Merger &));
  SettingField &trainer(SettingValue value);
  SettingField &leftOut(const char *what);
  SettingField &combines(Combine with);
};

/// All settings, in the order in which `--explain-config` and the reference
/// page list them.
const std::vector<SettingField> &settingFields();

/// Returns the setting with this key, or null if there is none.
const SettingField *findSetting(const std::string &key);

/// Returns the setting with this key. The setting must exist.
const SettingField &settingOf(const std::string &key);

/// Returns the value of a setting as `--explain-config` and error messages
/// print it. A list is joined by commas, and an empty value is `none`.
std::string settingToString(const Settings &settings,
                            const SettingField &field);

/// Returns the reference page of all settings in Markdown:
/// docs/reference/settings.md.
std::string settingsReference();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGTABLE_H
