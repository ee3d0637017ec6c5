//===- DsConfig.cpp - Reads a ds_config.json ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every key is looked up in the schema (DsSchema.h) and gets its verdict; the
// values that are applied are then read by name.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"
#include "SettingsMerge.h"
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
    for (const std::vector<DsKey> *table :
         {&dsTrainingKeys(), &dsParallelKeys(), &dsFeatureKeys()})
      for (const DsKey &key : *table)
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
  return !closestMatch(key,
                       {"train_batch_size", "train_micro_batch_size_per_gpu",
                        "gradient_accumulation_steps"})
              .empty();
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

/// Why a value that is not refused changes nothing.
std::string whyNeutral(const io::JsonMember &member, const DsKey &rule) {
  if (isOneOf(member.value, "[false, null, 0, \"none\", {}]"))
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
    if (!isOneOf(value, rule->neutral))
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

//===----------------------------------------------------------------------===//
// Values that are applied
//===----------------------------------------------------------------------===//

/// Gives settings the values of the file.
class DsReader {
public:
  DsReader(const io::JsonValue &root, Merger &merger)
      : root(root), merger(merger) {}

  template <typename T>
  void give(const io::JsonValue *value, const char *key, T Settings::*member) {
    if (!value || value->isNull())
      return;
    if (isAuto(*value))
      return merger.leaveOpen(value->path(), key);
    T read;
    if constexpr (std::is_same_v<T, int64_t>)
      read = value->asInteger();
    else
      read = value->asNumber();
    giveValue(*value, key, member, read);
  }
  template <typename T>
  void giveValue(const io::JsonValue &value, const char *key,
                 T Settings::*member, T read) {
    merger.give(key, member, std::move(read),
                {Origin::Kind::File, value.path(), value.location()});
  }
  void readPrecision();
  void readZero();
  void readMesh();
  void readCommunication();

private:
  /// The size of an axis of the mesh; null, and 0 where it means off, say
  /// nothing.
  void giveAxis(const io::JsonValue *value, const char *key,
                int64_t Settings::*member);
  void giveType(const io::JsonValue &value);

  const io::JsonValue &root;
  Merger &merger;
};

void DsReader::readPrecision() {
  const io::JsonValue *first = nullptr;
  for (const char *name : {"bf16", "bfloat16"}) {
    const io::JsonValue *section = root.find(name);
    const io::JsonValue *enabled = section ? section->find("enabled") : nullptr;
    if (!enabled)
      continue;
    if (first)
      section->fail("H0104", "\"bf16\" and \"bfloat16\" are the same section",
                    "keep one of the two");
    first = enabled;
    if (isAuto(*enabled))
      merger.leaveOpen(enabled->path(), "precision");
    else
      giveValue(*enabled, "precision", &Settings::precision,
                std::string(enabled->asBool() ? "bf16" : "fp32"));
  }
}

void DsReader::readZero() {
  const io::JsonValue *zero = root.find("zero_optimization");
  if (!zero)
    return;
  if (zero->isBool())
    return giveValue(*zero, "zero", &Settings::zero,
                     int64_t(zero->asBool() ? 1 : 0));
  give(zero->find("stage"), "zero", &Settings::zero);
  using S = Settings;
  const std::pair<const char *, int64_t S::*> amounts[] = {
      {"param_persistence_threshold", &S::paramPersistenceThreshold},
      {"model_persistence_threshold", &S::modelPersistenceThreshold},
      {"prefetch_bucket_size", &S::prefetchBucketSize},
      {"max_live_parameters", &S::maxLiveParameters},
      {"max_reuse_distance", &S::maxReuseDistance}};
  for (auto [key, member] : amounts)
    for (const char *prefix : {"stage3_", ""})
      give(zero->find(std::string(prefix) + key), key, member);
}

void DsReader::giveAxis(const io::JsonValue *value, const char *key,
                        int64_t Settings::*member) {
  bool isOff = value && value->isNumber() && value->asInteger() == 0;
  if (!isOff)
    give(value, key, member);
}

void DsReader::readMesh() {
  giveAxis(root.find("sequence_parallel_size"), "sequence",
           &Settings::sequence);
  if (const io::JsonValue *pipeline = root.find("pipeline"))
    give(pipeline->find("stages"), "pipe", &Settings::pipe);
  const io::JsonValue *section = root.find("tensor_parallel");
  if (!section)
    return;
  const io::JsonValue *tp = section->findNonNull("tp");
  const io::JsonValue *first = nullptr;
  for (const io::JsonValue *size :
       {section->find("autotp_size"), section->find("tp_size"),
        tp ? tp->find("tp_size") : nullptr}) {
    giveAxis(size, "tensor", &Settings::tensor);
    if (!size || !size->isNumber() || size->asInteger() == 0)
      continue;
    if (first && first->asInteger() != size->asInteger())
      size->fail("H0104",
                 "\"" + first->path() + "\" and \"" + size->path() +
                     "\" are the same size",
                 "keep one of the two");
    first = size;
  }
}

void DsReader::giveType(const io::JsonValue &value) {
  std::string type = value.asString();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  // DeepSpeed's old spelling.
  giveValue(value, "communication_type", &Settings::communicationType,
            type == "bfp16" ? std::string("bf16") : type);
}

/// With sequence parallelism, DeepSpeed's engine takes the type from a key of
/// its own, and fp32 when that is left out.
void DsReader::readCommunication() {
  const io::JsonValue *type = root.findNonNull("communication_data_type");
  const io::JsonValue *withSeq =
      root.findNonNull("seq_parallel_communication_data_type");
  const io::JsonValue *ranks = root.find("sequence_parallel_size");
  if (merger.result.values.sequence == 1) {
    if (withSeq)
      merger.mark(withSeq->path(), "no meaning here", "one seq rank");
  } else if (withSeq) {
    giveType(*withSeq);
  } else if (ranks && ranks->asInteger() > 1) {
    merger.give("communication_type", &Settings::communicationType,
                std::string("fp32"),
                {Origin::Kind::Derived, "sequence_parallel_size", {}});
  }
  if (type)
    giveType(*type);
}

} // namespace

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
static io::JsonValue readDocument(const std::string &config,
                                  std::vector<Diagnostic> &duplicates) {
  std::optional<std::string> text;
  if (!io::pathExists(config))
    text = decodeBase64(config);
  if (!text || text->find('{') == std::string::npos)
    return io::parseJsonFile(config, io::configJsonCodes, &duplicates);
  return io::parseJson(*text, {"base64 of --config", io::configJsonCodes, true},
                       &duplicates);
}

void config::mergeDsConfig(const std::string &config, Merger &merger) {
  io::JsonValue root = readDocument(config, merger.result.problems);
  if (!root.isObject())
    root.failType("an object");
  Judge(merger).judge(root, "");
  DsReader reader(root, merger);
  using S = Settings;
  auto give = [&](const char *name, const char *key, auto member) {
    merger.problems.attempt([&] { reader.give(root.find(name), key, member); });
  };
  give("train_batch_size", "batch", &S::batch);
  give("train_micro_batch_size_per_gpu", "micro_batch", &S::microBatch);
  give("gradient_accumulation_steps", "accumulate", &S::accumulate);
  give("gradient_clipping", "gradient_clipping", &S::gradientClipping);
  merger.problems.attempt([&] { reader.readPrecision(); });
  merger.problems.attempt([&] { reader.readZero(); });
  merger.problems.attempt([&] { reader.readMesh(); });
  merger.problems.attempt([&] { reader.readCommunication(); });
  merger.problems.attempt([&] { mergeOptimizer(root, merger); });
  merger.problems.attempt([&] { mergeScheduler(root, merger); });
}
