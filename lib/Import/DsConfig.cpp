//===- DsConfig.cpp - Reads a ds_config.json ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a ds_config.json in two steps. First, every key gets a verdict: its
// rule in the schema says whether it is applied, ignored or rejected. Then the
// keys that give settings are read by the functions that the rows of
// Settings.def name.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"
#include "SettingReaders.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

//===----------------------------------------------------------------------===//
// The schema
//===----------------------------------------------------------------------===//

namespace {

/// The rules of all keys of a ds_config.json. A rule is found by the path of
/// its key.
class Schema {
public:
  static const Schema &get() {
    static const Schema schema;
    return schema;
  }
  /// Returns the rule for `key` in the section `path`, or null if the key is
  /// unknown.
  const DsKey *find(const std::string &path, const std::string &key) const {
    std::string prefix = path.empty() ? "" : path + ".";
    auto found = keys.find(prefix + key);
    if (found == keys.end())
      found = keys.find(prefix + "*");
    return found == keys.end() ? nullptr : found->second;
  }
  /// The keys that a section may have.
  std::vector<std::string> namesIn(const std::string &path) const {
    std::string prefix = path.empty() ? "" : path + ".";
    std::vector<std::string> names;
    for (auto it = keys.lower_bound(prefix); it != keys.end(); ++it) {
      if (it->first.compare(0, prefix.size(), prefix) != 0)
        break;
      std::string rest = it->first.substr(prefix.size());
      if (rest.find('.') == std::string::npos && rest != "*" && !rest.empty())
        names.push_back(rest);
    }
    return names;
  }

private:
  Schema() {
    for (const DsKey &key : dsKeys())
      keys[key.path] = &key;
  }
  std::map<std::string, const DsKey *> keys;
};

std::string describeTypes(unsigned types) {
  static const std::vector<std::pair<unsigned, const char *>> names = {
      {DsBool, "true or false"}, {DsInt, "an integer"}, {DsNumber, "a number"},
      {DsString, "a string"},    {DsList, "a list"},    {DsObject, "an object"},
      {DsAuto, "\"auto\""},      {DsNull, "null"}};
  std::vector<std::string> parts;
  for (const auto &[bit, name] : names)
    if (types & bit)
      parts.push_back(name);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " or " : ", ") + parts[i];
  return text;
}

bool hasType(const io::JsonValue &value, unsigned types) {
  switch (value.kind()) {
  case io::JsonValue::Kind::Null:
    return types & DsNull;
  case io::JsonValue::Kind::Bool:
    return types & DsBool;
  case io::JsonValue::Kind::Integer:
    return types & (DsInt | DsNumber);
  case io::JsonValue::Kind::Float: {
    bool integral = value.asNumber() == std::floor(value.asNumber());
    return types & DsNumber || (types & DsInt && integral);
  }
  case io::JsonValue::Kind::String:
    return types & DsString || (types & DsAuto && value.asString() == "auto");
  case io::JsonValue::Kind::Array:
    return types & DsList;
  case io::JsonValue::Kind::Object:
    return types & DsObject;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Verdicts
//===----------------------------------------------------------------------===//

/// Sections with the parameters of an optimizer or schedule that is not
/// supported. The key is the section's path, the value the reason why its
/// parameters have no effect. Only the optimizer's or schedule's type is
/// reported as an error.
using Foreign = std::map<std::string, std::string>;

/// Gives each key of a ds_config.json its verdict, and adds a row for each
/// value to the table that `--explain-config` prints.
class Judge {
public:
  /// `foreign` lists sections whose members may have any name.
  Judge(Merger &merger, const Foreign &foreign)
      : merger(merger), foreign(foreign), rows(merger.result.rows) {}

  /// Judges the members of `object`. `section` is the path of the rule for this
  /// object. If a member is rejected, the others are still judged.
  void judge(const io::JsonValue &object, const std::string &section);

private:
  void judgeMember(const io::JsonMember &member, const io::JsonValue &object,
                   const std::string &section);
  [[noreturn]] void failUnknown(const io::JsonMember &member,
                                const io::JsonValue &object,
                                const std::string &section);
  void addRow(const io::JsonMember &member, const std::string &verdict,
              const std::string &why);
  Merger &merger;
  const Foreign &foreign;
  std::vector<ExplainRow> &rows;
};

/// Whether a key gives a batch size, or looks like a misspelled key that gives
/// one.
bool saysBatch(const std::string &key) {
  std::vector<std::string> names;
  for (const char *size : {"batch", "micro_batch", "accumulate"})
    for (const DsKey &known : settingOf(size).keys)
      names.push_back(known.path);
  return !closestMatch(key, names).empty();
}

void Judge::judge(const io::JsonValue &object, const std::string &section) {
  for (const io::JsonMember &member : object.members()) {
    std::optional<Diagnostic> problem =
        merger.problems.attempt([&] { judgeMember(member, object, section); });
    if (!problem)
      continue;
    addRow(member, "refused", problem->message);
    merger.isBatchUnsure |= section.empty() && saysBatch(member.key);
  }
}

void Judge::failUnknown(const io::JsonMember &member,
                        const io::JsonValue &object,
                        const std::string &section) {
  std::vector<std::string> names = Schema::get().namesIn(section);
  std::string near = closestMatch(member.key, names);
  std::string where =
      object.path().empty() ? "" : " in \"" + object.path() + "\"";
  std::string help = "did you mean \"" + near + "\"?";
  if (near.empty()) {
    help = "remove it";
    if (names.size() <= 25) {
      help += "; known here:";
      for (const std::string &name : names)
        help += " " + name;
    }
  }
  fail("H0107", "unknown key \"" + member.key + "\"" + where, help,
       member.keyLocation());
}

void Judge::addRow(const io::JsonMember &member, const std::string &verdict,
                   const std::string &why) {
  std::string text = member.value.toJson().dump();
  if (member.value.isNumber() && !std::isfinite(member.value.asNumber()))
    text = member.value.describe();
  if (text.size() > 40)
    text = text.substr(0, 36) + " ...";
  SourceLocation place = member.keyLocation();
  rows.push_back({member.value.path(), text,
                  place.file + ":" + std::to_string(place.line), verdict, why});
  merger.notePlaces(member);
}

bool isOneOf(const io::JsonValue &value, const std::string &list) {
  nlohmann::json wanted = value.toJson();
  for (const nlohmann::json &neutral : nlohmann::json::parse(list))
    if (neutral == wanted)
      return true;
  return false;
}

/// Whether the value is a section whose member `enabled` is false.
bool isOff(const io::JsonValue &value) {
  const io::JsonValue *enabled =
      value.isObject() ? value.find("enabled") : nullptr;
  return enabled && enabled->isBool() && !enabled->asBool();
}

/// Returns the reason why a value that is accepted has no effect.
std::string whyNeutral(const io::JsonMember &member, const DsKey &rule) {
  if (isOneOf(member.value, "[false, null, 0, \"none\", {}]") ||
      isOff(member.value))
    return member.key + " is off: nothing to do";
  return rule.why;
}

void Judge::judgeMember(const io::JsonMember &member,
                        const io::JsonValue &object,
                        const std::string &section) {
  if (auto owner = foreign.find(section); owner != foreign.end())
    return addRow(member, "no meaning here", owner->second);
  const DsKey *rule = Schema::get().find(section, member.key);
  if (!rule)
    failUnknown(member, object, section);
  const io::JsonValue &value = member.value;
  if (!hasType(value, rule->types))
    value.failType(describeTypes(rule->types));
  switch (rule->rule) {
  case DsRule::Gated:
    if (const io::JsonValue *enabled =
            value.isObject() ? value.find("enabled") : nullptr)
      if (enabled->isBool() && enabled->asBool()) {
        if (const Origin *origin = merger.originOf(rule->yieldsTo))
          return addRow(member, "overridden", origin->describe() + " wins");
        enabled->fail("H0108",
                      "\"" + value.path() + "\": " + std::string(rule->why),
                      "set \"enabled\" to false, or " +
                          (*rule->yieldsTo ? std::string("give --precision")
                                           : "remove the section"));
      }
    [[fallthrough]];
  case DsRule::Section:
    if (value.isObject() && !value.members().empty())
      return judge(value, rule->path);
    return addRow(member, value.isBool() ? "applied" : "no meaning here",
                  value.isObject() || value.isNull() ? "empty" : "");
  case DsRule::Neutral:
    if (!isOneOf(value, rule->neutral) && !isOff(value))
      value.fail("H0108",
                 "\"" + value.path() + "\" is " + value.describe() + ": " +
                     rule->why,
                 "remove it, or give it one of " + std::string(rule->neutral));
    return addRow(member, "no meaning here", whyNeutral(member, *rule));
  case DsRule::Ignored:
    return addRow(member, "no meaning here", rule->why);
  case DsRule::Applied:
    return addRow(member, "applied", rule->why);
  }
}

} // namespace

const std::vector<DsKey> &config::dsKeys() {
  static const std::vector<DsKey> all = [] {
    std::vector<DsKey> keys;
    auto add = [&](const std::vector<DsKey> &more) {
      keys.insert(keys.end(), more.begin(), more.end());
    };
    for (const SettingField &field : settingFields())
      add(field.keys);
    for (const std::vector<DsKey> *table :
         {&dsTrainingKeys(), &dsParallelKeys(), &dsFeatureKeys()})
      add(*table);
    return keys;
  }();
  return all;
}

//===----------------------------------------------------------------------===//
// Values that are applied
//===----------------------------------------------------------------------===//

Origin config::fileOrigin(const io::JsonValue &value) {
  return {Origin::Kind::File, value.path(), value.location()};
}

/// Whether the value is `Infinity`.
static bool isEndless(const io::JsonValue &value) {
  return value.isNumber() && std::isinf(value.asNumber()) &&
         value.asNumber() > 0;
}

void config::readKey(const SettingField &field, const io::JsonValue &value,
                     Merger &merger) {
  if (isAuto(value))
    return merger.leaveOpen(value.path(), field.key);
  SettingValue like = field.get(Settings());
  bool isInteger = std::holds_alternative<int64_t>(like);
  if (isInteger && isEndless(value) && field.range.holds(Settings::noLimit))
    merger.give(field.key, Settings::noLimit, fileOrigin(value));
  else if (isInteger)
    merger.give(field.key, value.asInteger(), fileOrigin(value));
  else if (std::holds_alternative<double>(like) && value.isNumber() &&
           !std::isfinite(value.asNumber()))
    value.failType("a finite number");
  else if (std::holds_alternative<double>(like))
    merger.give(field.key, value.asNumber(), fileOrigin(value));
  else if (std::holds_alternative<bool>(like))
    merger.give(field.key, value.asBool(), fileOrigin(value));
  else
    merger.give(field.key, value.asString(), fileOrigin(value));
}

void config::readClipping(const SettingField &field, const io::JsonValue &value,
                          Merger &merger) {
  if (isEndless(value))
    merger.give(field.key, 0.0, fileOrigin(value));
  else
    readKey(field, value, merger);
}

void config::readNothing(const SettingField &, const io::JsonValue &,
                         Merger &) {}

void config::readAxis(const SettingField &field, const io::JsonValue &value,
                      Merger &merger) {
  bool isOff = value.isNumber() && value.asInteger() == 0;
  if (!isOff)
    readKey(field, value, merger);
}

void config::readSwitchOfPrecision(const SettingField &field,
                                   const io::JsonValue &value, Merger &merger) {
  if (isAuto(value))
    return merger.leaveOpen(value.path(), field.key);
  Precision precision = value.asBool() ? Precision::BF16 : Precision::FP32;
  merger.give(field.key, toSettingValue(precision), fileOrigin(value));
}

void config::readSwitchOfZero(const SettingField &field,
                              const io::JsonValue &value, Merger &merger) {
  if (value.isBool())
    merger.give(field.key, int64_t(value.asBool() ? 1 : 0), fileOrigin(value));
}

static void giveType(const io::JsonValue &value, Merger &merger) {
  std::string type = value.asString();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  // DeepSpeed's older spelling of bf16 is `bfp16`.
  merger.give("communication_type",
              type == "bfp16" ? std::string("bf16") : type, fileOrigin(value));
}

/// If sequence parallelism is used, DeepSpeed's engine takes the element type
/// of communicated gradients from another key. If that key is absent, the type
/// is fp32.
void config::mergeCommunication(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *type = root.findNonNull("communication_data_type");
  const io::JsonValue *withSeq =
      root.findNonNull("seq_parallel_communication_data_type");
  const io::JsonValue *ranks = root.find("sequence_parallel_size");
  if (merger.result.values.sequence == 1) {
    if (withSeq)
      merger.mark(withSeq->path(), "no meaning here", "one seq rank");
  } else if (withSeq) {
    giveType(*withSeq, merger);
  } else if (ranks && ranks->asInteger() > 1) {
    merger.give("communication_type", toSettingValue(CommunicationType::FP32),
                {Origin::Kind::Derived, "sequence_parallel_size", {}});
  }
  if (type)
    giveType(*type, merger);
}

bool config::isAuto(const io::JsonValue &value) {
  return value.isString() && value.asString() == "auto";
}

/// Decodes base64, in the standard or the URL-safe alphabet. Returns nothing if
/// the text is no base64.
static std::optional<std::string> decodeBase64(const std::string &text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string bytes;
  unsigned bits = 0, count = 0;
  size_t end = text.find_last_not_of('=') + 1;
  for (char c : text.substr(0, end)) {
    size_t digit = digits.find(c == '+' ? '-' : c == '/' ? '_' : c);
    if (digit == std::string::npos)
      return std::nullopt;
    bits = bits << 6 | unsigned(digit);
    count += 6;
    if (count >= 8)
      bytes += char(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

/// Reads the file whose path is the value of --config. DeepSpeed's launcher
/// passes the content of the file in base64 instead, which is decoded.
SettingsFile config::readDsConfig(const std::string &config) {
  std::optional<std::string> text;
  if (!io::pathExists(config))
    text = decodeBase64(config);
  if (!text || text->find('{') == std::string::npos)
    return {config, io::readText(config, io::configJsonCodes.unreadable)};
  return {"base64 of --config", *text};
}

/// Returns the value at a path of keys, or null. Also returns null if a section
/// has a wrong type, which has been reported before.
static const io::JsonValue *findPath(const io::JsonValue &root,
                                     const std::string &path) {
  const io::JsonValue *value = &root;
  for (size_t begin = 0; begin < path.size();) {
    size_t end = std::min(path.find('.', begin), path.size());
    value = value->isObject()
                ? value->findNonNull(path.substr(begin, end - begin))
                : nullptr;
    if (!value)
      return nullptr;
    begin = end + 1;
  }
  return value;
}

/// The path of the section that contains the key at `path`.
static std::string sectionOf(const std::string &path) {
  size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// Reads every key that gives the setting `field`. Reports an error (H0104) if
/// several keys give it different values.
static void readSetting(const SettingField &field, const io::JsonValue &root,
                        const Foreign &foreign, Merger &merger) {
  const io::JsonValue *first = nullptr;
  for (const DsKey &key : field.keys) {
    const io::JsonValue *value = findPath(root, key.path);
    if (!value || key.read == readNothing ||
        foreign.count(sectionOf(key.path)) > 0)
      continue;
    merger.problems.attempt([&] { key.read(field, *value, merger); });
    if (key.rule != DsRule::Applied || isAuto(*value))
      continue;
    bool isOff =
        key.read == readAxis && value->isNumber() && value->asNumber() == 0;
    if (first && !isOff && first->toJson() != value->toJson())
      merger.problems.attempt([&] {
        value->fail("H0104",
                    "\"" + first->path() + "\" and \"" + value->path() +
                        "\" are the same setting",
                    "keep one of the two");
      });
    first = isOff ? first : value;
  }
}

/// Finds the parameters of an optimizer or schedule that is not supported. If a
/// flag gives the optimizer, the flag replaces the type and parameters of
/// ds_config.json, so that none of them has an effect.
static Foreign findForeign(const io::JsonValue &root) {
  auto nameAt = [&](const char *path) -> const io::JsonValue * {
    const io::JsonValue *type = findPath(root, path);
    return type && type->isString() ? type : nullptr;
  };
  Foreign foreign;
  if (const io::JsonValue *type = nameAt("optimizer.type");
      type && !findOptimizer(*type))
    foreign["optimizer.params"] =
        "a parameter of " + type->asString() + ", which is not supported";
  if (const io::JsonValue *type = nameAt("scheduler.type");
      type && !parseWord<Scheduler>(type->asString()))
    foreign["scheduler.params"] =
        "a parameter of " + type->asString() + ", which is not supported";
  return foreign;
}

void config::mergeDsConfig(const SettingsFile &config, Merger &merger) {
  io::JsonValue root =
      io::parseJson(config.text, {config.name, io::configJsonCodes, true},
                    &merger.result.problems);
  if (!root.isObject())
    root.failType("an object");
  const Foreign foreign = findForeign(root);
  Judge(merger, foreign).judge(root, "");
  for (const SettingField &field : settingFields())
    readSetting(field, root, foreign, merger);
  merger.problems.attempt([&] { mergeSparseAttention(root, merger); });
  for (const SettingField &field : settingFields())
    if (field.readAfter)
      merger.problems.attempt([&] { field.readAfter(root, merger); });
}
