//===- SettingTable.cpp - The rows of Settings.def ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the table of settings from Settings.def, and its reference page.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/SettingTable.h"
#include "SettingReaders.h"
#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

//===----------------------------------------------------------------------===//
// What rows say
//===----------------------------------------------------------------------===//

SettingField &SettingField::phases(const char *first, const char *last) {
  firstPhase = first;
  lastPhase = last;
  return *this;
}

SettingField &SettingField::means(const char *text) {
  meaning = text;
  return *this;
}

SettingField &SettingField::idle(const char *(*why)(const Settings &)) {
  whyIdle = why;
  return *this;
}

/// Returns the word that help texts use for the type of a setting's flags.
static const char *typeOfFlag(const SettingField &field) {
  SettingValue value = field.get(Settings());
  return std::holds_alternative<int64_t>(value)  ? "INT"
         : std::holds_alternative<double>(value) ? "FLOAT"
                                                 : "TEXT";
}

SettingField &SettingField::flag(const char *names, const char *group,
                                 const char *help, const char *shown) {
  // The flag accepts any text except "" if its range has no description.
  bool isText = range.describe().empty();
  flags.push_back({names, group, help, shown,
                   isText ? io::range::text() : range, typeOfFlag(*this),
                   mergeFlag, key});
  return *this;
}

SettingField &SettingField::flag(const char *names, const char *group,
                                 const char *help, const char *shown,
                                 io::ValueRange range,
                                 SettingFlag::Merge merge) {
  flags.push_back(
      {names, group, help, shown, std::move(range), "TEXT", merge, key});
  return *this;
}

SettingField &SettingField::switchOn(const char *names, const char *group,
                                     const char *help) {
  return switchOn(names, group, help, mergeFlag);
}

SettingField &SettingField::switchOn(const char *names, const char *group,
                                     const char *help,
                                     SettingFlag::Merge merge) {
  flags.push_back({names, group, help, "", Range::any(), "", merge, key});
  return *this;
}

SettingField &SettingField::ds(const char *path, unsigned types,
                               const char *why) {
  return ds(path, types, why, readKey);
}

SettingField &SettingField::ds(const char *path, unsigned types,
                               const char *why, DsReader read) {
  keys.push_back({path, types, DsRule::Applied, why, "", read});
  return *this;
}

SettingField &SettingField::dsSection(const char *path, unsigned types,
                                      DsReader read) {
  keys.push_back({path, types, DsRule::Section, "", "", read});
  return *this;
}

SettingField &SettingField::dsKeys(std::vector<DsKey> more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return *this;
}

SettingField &SettingField::dsAfter(void (*read)(const io::JsonValue &,
                                                 Merger &)) {
  readAfter = read;
  return *this;
}

SettingField &SettingField::trainer(SettingValue value) {
  trainerDefault = std::move(value);
  return *this;
}

SettingField &SettingField::leftOut(const char *what) {
  whenLeftOut = what;
  return *this;
}

SettingField &SettingField::combines(Combine with) {
  combine = with;
  return *this;
}

bool SettingFlag::isRepeatable() const {
  if (merge == mergePlace)
    return true;
  const SettingField *field = findSetting(key);
  return field && std::holds_alternative<std::vector<std::string>>(
                      field->get(Settings()));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

struct Table {
  std::vector<SettingField> fields;
  std::vector<SettingFlag> flags;
  Table();

private:
  void add(const SettingField &field) {
    fields.push_back(field);
    flags.insert(flags.end(), field.flags.begin(), field.flags.end());
  }
};

Table::Table() {
  auto next = allSettings().begin();
#define HEDDLE_SETTING(TYPE, MEMBER, DEFAULT, KEY, PATH, RANGE, ...)           \
  add(SettingField(*next++) __VA_ARGS__);
#define HEDDLE_FLAG(NAMES, TYPE, GROUP, RANGE, HELP, SHOWN, MERGE)             \
  flags.push_back({NAMES, GROUP, HELP, SHOWN, RANGE, TYPE, MERGE, ""});
#include "heddle/Settings/Settings.def"
}

const Table &table() {
  static const Table all;
  return all;
}

} // namespace

const std::vector<SettingField> &config::settingFields() {
  return table().fields;
}

const std::vector<SettingFlag> &config::settingFlags() { return table().flags; }

const SettingField *config::findSetting(const std::string &key) {
  for (const SettingField &field : settingFields())
    if (field.key == key)
      return &field;
  return nullptr;
}

const SettingField &config::settingOf(const std::string &key) {
  const SettingField *field = findSetting(key);
  assert(field && "no setting has this key");
  return *field;
}

std::string config::settingToString(const Settings &settings,
                                    const SettingField &field) {
  SettingValue value = field.get(settings);
  if (const auto *text = std::get_if<std::string>(&value))
    return text->empty() ? "none" : *text;
  if (const auto *items = std::get_if<std::vector<std::string>>(&value)) {
    std::string text;
    for (const std::string &item : *items)
      text += (text.empty() ? "" : ",") + item;
    return text.empty() ? "none" : text;
  }
  if (const auto *number = std::get_if<int64_t>(&value))
    return *number == Settings::noLimit ? "no limit" : std::to_string(*number);
  if (const auto *truth = std::get_if<bool>(&value))
    return *truth ? "true" : "false";
  return nlohmann::json(std::get<double>(value)).dump();
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Formats a list of names, for example `--batch`, `--global-batch-size`.
/// Returns a dash for an empty list.
static std::string listOf(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "`" : ", `") + name + "`";
  return text.empty() ? "–" : text;
}

static std::vector<std::string> splitNames(const std::string &names) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= names.size();) {
    size_t end = std::min(names.find(',', begin), names.size());
    all.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

static std::string rowOfReference(const SettingField &field) {
  std::vector<std::string> flags, keys;
  for (const SettingFlag &flag : field.flags)
    for (const std::string &name : splitNames(flag.names))
      flags.push_back(name);
  for (const DsKey &key : field.keys)
    if (key.rule == DsRule::Applied)
      keys.push_back(key.path);
  // The learning-rate schedule has a key for each of its parameters. These are
  // too many for the table of settings, so another page lists them.
  if (keys.size() > 8)
    keys = {keys.front().substr(0, keys.front().rfind('.')) + ".*"};
  std::string values = field.range.describe();
  if (values.empty())
    values = std::holds_alternative<bool>(field.get(Settings()))
                 ? "true or false"
                 : "text";
  std::string phases = field.firstPhase;
  if (field.lastPhase != field.firstPhase)
    phases += " to " + field.lastPhase;
  std::string fallback = field.whenLeftOut.empty()
                             ? settingToString(Settings(), field)
                             : field.whenLeftOut;
  return "| `" + field.key + "` | `" + field.path + "` | " + listOf(flags) +
         " | " + listOf(keys) + " | " + values + " | " + fallback + " | " +
         phases + " | " + field.meaning + " |\n";
}

std::string config::settingsReference() {
  std::string text =
      "# Settings\n\n"
      "Every setting of `heddle compile`. The key is its name in a strategy "
      "`.json` and in `--explain-config`, and the\nattribute its place in "
      "`#dist.strategy`. The phases are the first and the last that read it: "
      "after the first, it can no\nlonger be changed in a dump.\n\n"
      "| key | attribute | flags | keys of ds_config.json | values | default | "
      "phases "
      "| meaning |\n|---|---|---|---|---|---|---|\n";
  for (const SettingField &field : settingFields())
    text += rowOfReference(field);
  text += "\nThese flags set several settings, or a part of one:\n\n"
          "| flag | values | meaning |\n|---|---|---|\n";
  for (const SettingFlag &flag : settingFlags())
    if (flag.key.empty())
      text += "| " + listOf(splitNames(flag.names)) + " | " +
              flag.range.describe() + " | " + flag.help + " |\n";
  return text;
}
