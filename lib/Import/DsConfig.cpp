//===- DsConfig.cpp - Reads a ds_config.json ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every key is looked up in the schema and gets its verdict; the values that
// are applied are then read as the rows of Settings.def say.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"
#include "SettingReaders.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

//===----------------------------------------------------------------------===//
// The schema
//===----------------------------------------------------------------------===//

namespace {

/// All keys, by path.
class Schema {
public:
  static const Schema &get() {
    static const Schema schema;
    return schema;
  }
  /// The rule for `key` in the section `path`, or null.
  const DsKey *find(const std::string &path, const std::string &key) const {
    std::string prefix = path.empty() ? "" : path + ".";
    auto found = keys.find(prefix + key);
    if (found == keys.end())
      found = keys.find(prefix + "*");
    return found == keys.end() ? nullptr : found->second;
  }
  /// The names that may stand in the section.
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

/// Walks a document, and writes one row for each leaf.
class Judge {
public:
  explicit Judge(Merger &merger) : merger(merger), rows(merger.result.rows) {}

  /// `section` is the path of the rule of `object`. What is refused does not
  /// keep the rest from being judged.
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
  std::vector<ExplainRow> &rows;
};

/// Whether the key says a size of the batch, or is meant to.
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
  if (text.size() > 40)
    text = text.substr(0, 36) + " ...";
  SourceLocation place = member.keyLocation();
  rows.push_back({member.value.path(), text,
                  place.file + ":" + std::to_string(place.line), verdict, why});
}

bool isOneOf(const io::JsonValue &value, const std::string &list) {
  nlohmann::json wanted = value.toJson();
  for (const nlohmann::json &neutral : nlohmann::json::parse(list))
    if (neutral == wanted)
      return true;
  return false;
}

/// Whether it is a section that says so of itself.
bool isOff(const io::JsonValue &value) {
  const io::JsonValue *enabled =
      value.isObject() ? value.find("enabled") : nullptr;
  return enabled && enabled->isBool() && !enabled->asBool();
}

/// Why a value that is not refused changes nothing.
std::string whyNeutral(const io::JsonMember &member, const DsKey &rule) {
  if (isOneOf(member.value, "[false, null, 0, \"none\", {}]") ||
      isOff(member.value))
    return member.key + " is off: nothing to do";
  return rule.why;
}

void Judge::judgeMember(const io::JsonMember &member,
                        const io::JsonValue &object,
                        const std::string &section) {
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
      if (enabled->isBool() && enabled->asBool())
        enabled->fail("H0108",
                      "\"" + value.path() + "\": " + std::string(rule->why),
                      "set \"enabled\" to false, or remove the section");
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

void config::readKey(const SettingField &field, const io::JsonValue &value,
                     Merger &merger) {
  if (isAuto(value))
    return merger.leaveOpen(value.path(), field.key);
  SettingValue like = field.get(Settings());
  if (std::holds_alternative<int64_t>(like))
    merger.give(field.key, value.asInteger(), fileOrigin(value));
  else if (std::holds_alternative<double>(like))
    merger.give(field.key, value.asNumber(), fileOrigin(value));
  else if (std::holds_alternative<bool>(like))
    merger.give(field.key, value.asBool(), fileOrigin(value));
  else
    merger.give(field.key, value.asString(), fileOrigin(value));
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

/// The host's memory is that of a CPU's kernels.
static void giveHost(const SettingField &field, const io::JsonValue &value,
                     Merger &merger) {
  if (isGpu(merger.result.values.target))
    merger.give(field.key, toSettingValue(MemoryKind::Host), fileOrigin(value));
  else
    merger.mark(value.path(), "no meaning here",
                "kernels run in the host's memory");
}

void config::readOffloadDevice(const SettingField &field,
                               const io::JsonValue &value, Merger &merger) {
  if (value.isNull() || value.asString() == "none")
    return;
  if (value.asString() == "cpu")
    return giveHost(field, value, merger);
  if (value.asString() != "nvme")
    fail("H0105",
         value.path() + " is none, cpu or nvme, not \"" + value.asString() +
             "\"",
         "give one of the three", value.location());
  merger.give(field.key, toSettingValue(MemoryKind::File), fileOrigin(value));
}

void config::readSwitchOfOffload(const SettingField &field,
                                 const io::JsonValue &value, Merger &merger) {
  if (value.asBool())
    giveHost(field, value, merger);
}

/// The value behind keys of sections, or null. Sections may be switches in old
/// files, or wrong, which others report.
static const io::JsonValue *valueAt(const io::JsonValue &root,
                                    std::initializer_list<const char *> keys) {
  const io::JsonValue *value = &root;
  for (const char *key : keys)
    value = value && value->isObject() ? value->findNonNull(key) : nullptr;
  return value;
}

/// What a file puts in the host's memory is pinned if `wish` is true.
static void pin(const char *key, MemoryKind Settings::*kind,
                const io::JsonValue *wish, Merger &merger) {
  if (!wish || !wish->isBool())
    return;
  const Origin *place = merger.originOf(key);
  MemoryKind &chosen = merger.result.values.*kind;
  bool isFiles = place && place->kind == Origin::Kind::File;
  if (isFiles && chosen == MemoryKind::Host && wish->asBool())
    chosen = MemoryKind::Pinned;
  else if (!isFiles || chosen == MemoryKind::Device)
    merger.mark(wish->path(), "no meaning here",
                "this file puts nothing in the memory beside a GPU");
  else if (chosen == MemoryKind::File)
    merger.mark(wish->path(), "no meaning here",
                "what is on file comes and goes through a ring that is "
                "pinned on every GPU");
}

void config::mergePinnedOptimizer(const io::JsonValue &root, Merger &merger) {
  for (const io::JsonValue *wish :
       {valueAt(root, {"zero_optimization", "offload_optimizer", "pin_memory"}),
        valueAt(root, {"zero_optimization", "cpu_offload_use_pin_memory"})})
    pin("place_optimizer", &Settings::placeOptimizer, wish, merger);
}

void config::mergePinnedParameters(const io::JsonValue &root, Merger &merger) {
  pin("place_parameters", &Settings::placeParameters,
      valueAt(root, {"zero_optimization", "offload_param", "pin_memory"}),
      merger);
}

/// The `nvme_path` of a section, or null where it names no directory.
static const io::JsonValue *swapPathAt(const io::JsonValue &root,
                                       const char *section, Merger &merger) {
  const io::JsonValue *path =
      valueAt(root, {"zero_optimization", section, "nvme_path"});
  if (!path || !path->isString() || path->asString().empty())
    return nullptr;
  if (!isAuto(*path))
    return path;
  merger.leaveOpen(path->path(), "swap_dir");
  return nullptr;
}

static bool isOnFile(plan::FileRole role, const Settings &values) {
  switch (role) {
  case plan::FileRole::Optimizer:
    return values.placeOptimizer == MemoryKind::File;
  case plan::FileRole::Parameters:
    return values.placeParameters == MemoryKind::File;
  case plan::FileRole::Gradients:
    return values.placeGradients == MemoryKind::File;
  case plan::FileRole::Activations:
    return values.placeActivations == MemoryKind::File;
  }
  return false;
}

/// The directory that an `nvme_path` names for `roles`, beside `given`, which a
/// stronger source names. One that cannot be told from directories of roles is
/// an error where it counts, and "" elsewhere.
static std::string directoryFor(const std::vector<plan::FileRole> &roles,
                                const io::JsonValue &path,
                                const io::SwapDirectories &given,
                                Merger &merger) {
  bool isNamed = true, counts = false;
  for (plan::FileRole role : roles)
    if (given.of(role).empty()) {
      isNamed = false;
      counts |= isOnFile(role, merger.result.values);
    }
  if (isNamed)
    merger.mark(path.path(), "overridden",
                merger.originOf("swap_dir")->describe() + " wins");
  else if (!counts)
    merger.mark(path.path(), "no meaning here",
                "nothing that would be there is on file");
  else if (roles.size() == 1)
    merger.mark(path.path(), "applied",
                std::string("--swap-dir ") + plan::nameOf(roles.front()) + "=");
  auto read = io::SwapDirectories::parse(path.asString());
  if (read && read->isOne())
    return read->all;
  if (counts)
    path.fail("H0105",
              path.path() + " = \"" + path.asString() +
                  "\" cannot be told from directories of roles",
              "give a path without commas, with ./ before a name with a =");
  return "";
}

/// One path is for all files; of two the parameters' is for theirs alone. So is
/// each beside directories of roles that a stronger source names.
void config::mergeSwapPaths(const io::JsonValue &root, Merger &merger) {
  using plan::FileRole;
  const io::JsonValue *first = swapPathAt(root, "offload_optimizer", merger);
  const io::JsonValue *second = swapPathAt(root, "offload_param", merger);
  auto given = io::SwapDirectories::parse(merger.result.values.swapDir);
  if ((!first && !second) || !given)
    return; // As combineDirectories.
  io::SwapDirectories paths;
  auto read = [&](std::vector<FileRole> roles, const io::JsonValue &path) {
    return directoryFor(roles, path, *given, merger);
  };
  if (first && second) {
    paths.all =
        read({FileRole::Optimizer, FileRole::Gradients, FileRole::Activations},
             *first);
    paths.own[FileRole::Parameters] = read({FileRole::Parameters}, *second);
  } else {
    first = first ? first : second;
    paths.all =
        read({std::begin(plan::fileRoles), std::end(plan::fileRoles)}, *first);
  }
  std::string text = paths.text();
  if (text.empty())
    return;
  if (merger.isGiven("swap_dir"))
    merger.fill("swap_dir", text);
  else
    merger.give("swap_dir", text, fileOrigin(*first));
}

/// DeepSpeed's CPU updates all of what is in its memory, unless a ratio says
/// less. A ratio also counts for states that a flag has put there.
void config::mergeHostUpdates(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *ratio =
      valueAt(root, {"zero_optimization", "offload_optimizer", "ratio"});
  if (ratio && !ratio->isNumber())
    return;
  MemoryKind kind = merger.result.values.placeOptimizer;
  bool isOnHost = kind == MemoryKind::Host || kind == MemoryKind::Pinned;
  const Origin *place = merger.originOf("place_optimizer");
  if (ratio && !isOnHost)
    merger.mark(ratio->path(), "no meaning here",
                "no state of the optimizer is in the host's memory");
  else if (ratio)
    merger.give("host_updates", ratio->asNumber(), fileOrigin(*ratio));
  else if (isOnHost && place && place->kind == Origin::Kind::File)
    merger.give(
        "host_updates", 1.0,
        {Origin::Kind::Derived, "zero_optimization.offload_optimizer", {}});
}

static void giveType(const io::JsonValue &value, Merger &merger) {
  std::string type = value.asString();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  // DeepSpeed's old spelling.
  merger.give("communication_type",
              type == "bfp16" ? std::string("bf16") : type, fileOrigin(value));
}

/// With sequence parallelism, DeepSpeed's engine takes the type from a key of
/// its own, and fp32 when that is left out.
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

/// What urlsafe base64, or the usual one, stands for; nothing when it is none.
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

/// The file that --config names, or that it is in base64, as DeepSpeed's
/// launcher passes it.
SettingsFile config::readDsConfig(const std::string &config) {
  std::optional<std::string> text;
  if (!io::pathExists(config))
    text = decodeBase64(config);
  if (!text || text->find('{') == std::string::npos)
    return {config, io::readText(config, io::configJsonCodes.unreadable)};
  return {"base64 of --config", *text};
}

/// The value at a path, or null; what is wrong on the way has been judged.
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

/// Reads the keys of a setting. Those that say it differently are no choice.
static void readSetting(const SettingField &field, const io::JsonValue &root,
                        Merger &merger) {
  const io::JsonValue *first = nullptr;
  for (const DsKey &key : field.keys) {
    const io::JsonValue *value = findPath(root, key.path);
    if (!value || key.read == readNothing)
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

void config::mergeDsConfig(const SettingsFile &config, Merger &merger) {
  io::JsonValue root =
      io::parseJson(config.text, {config.name, io::configJsonCodes, true},
                    &merger.result.problems);
  if (!root.isObject())
    root.failType("an object");
  Judge(merger).judge(root, "");
  for (const SettingField &field : settingFields())
    readSetting(field, root, merger);
  for (const SettingField &field : settingFields())
    if (field.readAfter)
      merger.problems.attempt([&] { field.readAfter(root, merger); });
}
