//===- DsQuantizeTraining.cpp - Sections of ds_config: MoQ ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads which weights are quantized while they are trained: from the section
// `compression_training.weight_quantization`, or from the older section
// `quantize_training`.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"
#include "SettingReaders.h"
#include "heddle/Settings/WeightQuantization.h"

using namespace heddle;
using namespace heddle::config;
using R = DsRule;

static constexpr const char *olderSection = "quantize_training";
static constexpr const char *newerSection =
    "compression_training.weight_quantization";
static constexpr const char *generated =
    "kernels are generated for all bits and groups";

static void addMixing(std::vector<DsKey> &keys, const std::string &section) {
  std::string mixing = section + ".fp16_mixed_quantize";
  keys.push_back({mixing, DsObject, R::Section});
  keys.push_back({mixing + ".enabled", DsBool, R::Applied});
  keys.push_back({mixing + ".quantize_change_ratio", DsNumber, R::Applied});
}

static void addOlder(std::vector<DsKey> &keys) {
  const std::string section = olderSection;
  auto add = [&](const char *name, unsigned types, R rule = R::Applied,
                 const char *why = "") {
    keys.push_back({section + "." + name, types, rule, why});
  };
  keys.push_back({section, DsObject | DsBool | DsNull, R::Section});
  add("enabled", DsBool);
  add("quantize_verbose", DsBool, R::Ignored, "the log has the bits");
  add("quantizer_kernel", DsBool, R::Ignored, generated);
  add("quantize_bits", DsObject, R::Section);
  add("quantize_bits.start_bits", DsInt);
  add("quantize_bits.target_bits", DsInt);
  add("quantize_schedule", DsObject, R::Section);
  add("quantize_schedule.quantize_period", DsInt);
  add("quantize_schedule.schedule_offset", DsInt);
  add("quantize_groups", DsInt);
  add("quantize_type", DsString);
  add("quantize_algo", DsObject, R::Section);
  add("quantize_algo.q_type", DsString);
  add("quantize_algo.rounding", DsString);
  addMixing(keys, section);
  add("eigenvalue", DsObject, R::Gated,
      "periods of MoQ do not depend on eigenvalues of the Hessian yet");
  for (const char *member :
       {"enabled", "verbose", "max_iter", "tol", "stability",
        "gas_boundary_resolution", "layer_name", "layer_num"})
    keys.push_back({section + ".eigenvalue." + member,
                    DsBool | DsNumber | DsString, R::Ignored, "off"});
}

static void addNewer(std::vector<DsKey> &keys) {
  const std::string section = newerSection;
  const std::string shared = section + ".shared_parameters";
  const std::string groups = section + ".different_groups";
  keys.push_back({section, DsObject, R::Section});
  keys.push_back({shared, DsObject, R::Section});
  for (const char *name : {"schedule_offset", "quantize_groups"})
    keys.push_back({shared + "." + name, DsInt, R::Applied});
  for (const char *name : {"quantization_type", "rounding"})
    keys.push_back({shared + "." + name, DsString, R::Applied});
  for (const char *name : {"enabled", "quantize_weight_in_forward"})
    keys.push_back({shared + "." + name, DsBool, R::Applied});
  keys.push_back({shared + ".quantizer_kernel", DsBool, R::Ignored, generated});
  keys.push_back({shared + ".quantize_verbose", DsBool, R::Ignored,
                  "the log has the bits"});
  addMixing(keys, shared);
  keys.push_back({groups, DsObject, R::Section});
  keys.push_back({groups + ".*", DsObject, R::Section});
  keys.push_back({groups + ".*.params", DsObject, R::Section});
  for (const char *name : {"start_bits", "target_bits", "quantization_period"})
    keys.push_back({groups + ".*.params." + name, DsInt, R::Applied});
  keys.push_back({groups + ".*.modules", DsList | DsString, R::Applied});
  keys.push_back({groups + ".*.related_modules", DsList | DsNull, R::Ignored,
                  "quantization has none"});
}

std::vector<DsKey> config::quantizeTrainingKeys() {
  std::vector<DsKey> keys;
  addOlder(keys);
  addNewer(keys);
  return keys;
}

namespace {

/// Reads one of the two sections.
class Reader {
public:
  explicit Reader(Merger &merger) : merger(merger) {}

  void readOlder(const io::JsonValue &section);
  void readNewer(const io::JsonValue &shared, const io::JsonValue *groups);

private:
  template <typename T>
  void give(const char *key, const io::JsonValue *value, const T &number) {
    if (value)
      merger.give(key, number, fileOrigin(*value));
  }
  void giveInteger(const char *key, const io::JsonValue *value) {
    if (value)
      give(key, value, value->asInteger());
  }
  void readType(const io::JsonValue *type) {
    if (type)
      give("moq_type", type, type->asString());
  }
  void readRounding(const io::JsonValue *rounding);
  void readMixing(const io::JsonValue &section);
  void add(QuantizedGroup group, const io::JsonValue &place);

  Merger &merger;
  std::vector<std::string> groups;
};

} // namespace

static const io::JsonValue *memberOf(const io::JsonValue &section,
                                     const char *object, const char *name) {
  const io::JsonValue *inner = section.findNonNull(object);
  return inner && inner->isObject() ? inner->findNonNull(name) : nullptr;
}

void Reader::readRounding(const io::JsonValue *rounding) {
  if (!rounding || rounding->asString() == "nearest")
    return;
  rounding->fail("H0108",
                 "\"" + rounding->path() + "\" is " + rounding->describe() +
                     ": weights are rounded to the nearest value only",
                 "use \"nearest\"");
}

void Reader::readMixing(const io::JsonValue &section) {
  const io::JsonValue *enabled =
      memberOf(section, "fp16_mixed_quantize", "enabled");
  if (!enabled || !enabled->asBool())
    return;
  constexpr double usual = 0.001; // DeepSpeed's default.
  const io::JsonValue *ratio =
      memberOf(section, "fp16_mixed_quantize", "quantize_change_ratio");
  give("moq_change_ratio", ratio ? ratio : enabled,
       ratio ? ratio->asNumber() : usual);
}

void Reader::add(QuantizedGroup group, const io::JsonValue &place) {
  std::string wrong;
  for (const std::string &pattern : group.modules)
    if (pattern.find_first_of(" \t\n") != std::string::npos)
      wrong = "the pattern \"" + pattern + "\" has a space";
  if (wrong.empty() && parseQuantizedGroup(group.toText(), wrong))
    groups.push_back(group.toText());
  else
    place.fail("H0140", "\"" + place.path() + "\" cannot be read: " + wrong,
               "as in \"params\": {\"start_bits\": 16, \"target_bits\": 8, "
               "\"quantization_period\": 100}");
}

void Reader::readOlder(const io::JsonValue &section) {
  QuantizedGroup all{"all", 16, 8, 1000, {"*"}};
  if (const auto *bits = memberOf(section, "quantize_bits", "start_bits"))
    all.startBits = bits->asInteger();
  if (const auto *bits = memberOf(section, "quantize_bits", "target_bits"))
    all.targetBits = bits->asInteger();
  if (const auto *period =
          memberOf(section, "quantize_schedule", "quantize_period"))
    all.period = period->asInteger();
  add(all, section);
  merger.give("moq", groups, fileOrigin(section));
  giveInteger("moq_groups", section.findNonNull("quantize_groups"));
  giveInteger("moq_offset",
              memberOf(section, "quantize_schedule", "schedule_offset"));
  readType(section.findNonNull("quantize_type"));
  readType(memberOf(section, "quantize_algo", "q_type"));
  readRounding(memberOf(section, "quantize_algo", "rounding"));
  readMixing(section);
}

void Reader::readNewer(const io::JsonValue &shared,
                       const io::JsonValue *differentGroups) {
  if (!differentGroups || differentGroups->members().empty())
    shared.fail("H0108",
                "\"" + shared.path() +
                    "\" is enabled, but there are no \"different_groups\"",
                "add \"different_groups\": {\"all\": {\"params\": "
                "{\"start_bits\": 16, \"target_bits\": 8}, \"modules\": "
                "[\"*\"]}}");
  for (const io::JsonMember &member : differentGroups->members()) {
    const io::JsonValue *params = member.value.findNonNull("params");
    auto require = [&](const char *name) {
      if (!params || !params->findNonNull(name))
        member.value.fail("H0108",
                          "\"" + member.value.path() + "\" has no \"" + name +
                              "\" in \"params\"",
                          "give it a number from 1 to 16");
      return params->at(name).asInteger();
    };
    QuantizedGroup group{
        member.key, require("start_bits"), require("target_bits"), 1, {}};
    group.period = params->integerOr("quantization_period", 1);
    if (const auto *modules = member.value.findNonNull("modules")) {
      if (modules->isString())
        group.modules.push_back(modules->asString());
      else
        for (const io::JsonValue &pattern : modules->elements())
          group.modules.push_back(pattern.asString());
    }
    if (group.modules.empty())
      group.modules = {"*"};
    add(group, member.value);
  }
  merger.give("moq", groups, fileOrigin(*differentGroups));
  giveInteger("moq_groups", shared.findNonNull("quantize_groups"));
  giveInteger("moq_offset", shared.findNonNull("schedule_offset"));
  readType(shared.findNonNull("quantization_type"));
  readRounding(shared.findNonNull("rounding"));
  const auto *inForward = shared.findNonNull("quantize_weight_in_forward");
  if (inForward && inForward->asBool())
    return give("moq_in_forward", inForward, true);
  readMixing(shared);
}

void config::mergeQuantizeTraining(const io::JsonValue &root, Merger &merger) {
  auto isOn = [](const io::JsonValue *section) {
    const io::JsonValue *enabled = section && section->isObject()
                                       ? section->findNonNull("enabled")
                                       : nullptr;
    return enabled && enabled->isBool() && enabled->asBool();
  };
  const io::JsonValue *older = root.findNonNull(olderSection);
  const io::JsonValue *training = root.findNonNull("compression_training");
  const io::JsonValue *newer =
      training && training->isObject()
          ? training->findNonNull("weight_quantization")
          : nullptr;
  const io::JsonValue *shared = newer && newer->isObject()
                                    ? newer->findNonNull("shared_parameters")
                                    : nullptr;
  if (isOn(older) && isOn(shared))
    older->fail("H0108",
                "\"" + older->path() + "\" and \"" + shared->path() +
                    "\" both quantize weights",
                "remove one of them");
  Reader reader(merger);
  if (isOn(older))
    reader.readOlder(*older);
  else if (older && older->isObject())
    merger.mark(older->path(), "no meaning here", "off");
  if (isOn(shared))
    reader.readNewer(*shared, newer->findNonNull("different_groups"));
  else if (newer && newer->isObject())
    merger.mark(newer->path(), "no meaning here", "off");
}
