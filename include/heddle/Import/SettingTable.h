//===- SettingTable.h - The rows of Settings.def, at run time ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What flags, ds_config.json, strategies, tables and checks take from a row.
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

/// Types that a value may have; they add up.
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

/// What becomes of a key.
enum class DsRule {
  Section, ///< Its members have rules of their own.
  Gated,   ///< A section that is refused when its member `enabled` is true,
           ///< and has no effect otherwise.
  Applied, ///< It is a setting's.
  Ignored, ///< It has no meaning here; `why` says why.
  Neutral, ///< Refused unless its value is one of `neutral`.
};

/// Gives the setting what a key of it says.
using DsReader = void (*)(const SettingField &, const io::JsonValue &,
                          Merger &);

struct DsKey {
  /// From the root; a segment `*` stands for any name.
  std::string path;
  unsigned types;
  DsRule rule;
  const char *why = "";
  /// The values that change nothing, as a JSON list.
  const char *neutral = "[false, null]";
  DsReader read = nullptr; ///< Of a setting's key.
  /// A setting: where a flag or a strategy says it, a section that is refused
  /// does not count.
  const char *yieldsTo = "";
};

/// Every key that is known: those of settings, and those without one.
const std::vector<DsKey> &dsKeys();

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// A flag of `heddle compile`.
struct SettingFlag {
  /// Gives settings what the flag says.
  using Merge = void (*)(const SettingFlag &, const std::string &text,
                         Merger &);
  std::string names; ///< As `--batch,--global-batch-size`.
  const char *group;
  const char *help;
  const char *shown; ///< In place of a default.
  io::ValueRange range;
  const char *type; ///< INT, FLOAT or TEXT; "" takes no value.
  Merge merge;
  std::string key; ///< Of its setting; "" where it has several.

  /// Whether it may be given several times: its text has a line for each.
  bool isRepeatable() const;
  /// The first of the names.
  std::string name() const { return names.substr(0, names.find(',')); }
};

/// All flags, in the order of the help.
const std::vector<SettingFlag> &settingFlags();

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

/// A row of Settings.def; its members' names are those that rows call.
struct SettingField : Setting {
  explicit SettingField(const Setting &setting) : Setting(setting) {}

  /// The phases that read it first and last. After the first it can no longer
  /// be changed in a dump.
  std::string firstPhase, lastPhase;
  std::string meaning;
  /// Why it changes nothing on this mesh, or "".
  const char *(*whyIdle)(const Settings &) = nullptr;
  std::vector<SettingFlag> flags;
  std::vector<DsKey> keys;
  /// Reads what follows from several keys, after all others were read.
  void (*readAfter)(const io::JsonValue &root, Merger &) = nullptr;
  /// What "auto" means to Hugging Face's Trainer, where it is not the default.
  std::optional<SettingValue> trainerDefault;
  /// What it is when nobody gives it, where that is not the default.
  std::string whenLeftOut;
  /// A word that is known and not supported: H0108.
  struct Refused {
    std::string word, why, help;
  };
  std::optional<Refused> refused;
  /// What a source and a weaker one give together, of a value that need not say
  /// all. Null: the value of the weaker one does not count.
  using Combine = SettingValue (*)(const SettingValue &stronger,
                                   const SettingValue &weaker);
  Combine combine = nullptr;

  SettingField &phases(const char *first, const char *last);
  SettingField &means(const char *text);
  SettingField &idle(const char *(*why)(const Settings &));
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown);
  /// A flag whose text is not written as the setting's values are.
  SettingField &flag(const char *names, const char *group, const char *help,
                     const char *shown, io::ValueRange range,
                     SettingFlag::Merge merge);
  /// A flag without a value.
  SettingField &switchOn(const char *names, const char *group,
                         const char *help);
  SettingField &switchOn(const char *names, const char *group, const char *help,
                         SettingFlag::Merge merge);
  SettingField &ds(const char *path, unsigned types, const char *why = "");
  SettingField &ds(const char *path, unsigned types, const char *why,
                   DsReader read);
  /// A section that may have a value in place of its members.
  SettingField &dsSection(const char *path, unsigned types, DsReader read);
  SettingField &dsKeys(std::vector<DsKey> more);
  SettingField &dsAfter(void (*read)(const io::JsonValue &root, Merger &));
  SettingField &trainer(SettingValue value);
  SettingField &leftOut(const char *what);
  SettingField &refuses(const char *word, const char *why, const char *help);
  SettingField &combines(Combine with);
};

/// All settings, in the order in which they are explained.
const std::vector<SettingField> &settingFields();

/// The setting with this key, or null.
const SettingField *findSetting(const std::string &key);

/// The same; there must be one.
const SettingField &settingOf(const std::string &key);

/// A value of a setting, as tables print it.
std::string settingToString(const Settings &settings,
                            const SettingField &field);

/// The reference of all settings, as Markdown: docs/reference/settings.md.
std::string settingsReference();

} // namespace heddle::config

#endif // HEDDLE_IMPORT_SETTINGTABLE_H
