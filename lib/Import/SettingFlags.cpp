//===- SettingFlags.cpp - Reads the flags of settings ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the flags that need a parser of their own: meshes, targets, memory
// budgets, placements of states, the optimizer's betas, layer dropping, and
// parameter groups.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include "heddle/Settings/OffloadedRoles.h"
#include "heddle/Settings/ParameterGroup.h"
#include "heddle/Settings/WeightQuantization.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include <algorithm>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::config;

static Origin flagOrigin(const SettingFlag &flag) {
  return {Origin::Kind::Flag, flag.name(), {}};
}

[[noreturn]] static void failFlag(const SettingFlag &flag,
                                  const std::string &value,
                                  const std::string &help) {
  fail("H0114", flag.name() + ": \"" + value + "\" is not possible", help);
}

static std::vector<std::string> splitAt(const char *separators,
                                        const std::string &text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Splits a list at commas and at line breaks. If a flag is given several
/// times, its text has one line for each time.
static std::vector<std::string> splitAtCommas(const std::string &text) {
  return splitAt(",\n", text);
}

/// Converts the text of a flag to the type of its setting. The text must be a
/// value in the flag's range.
static SettingValue valueFromText(const SettingField &field,
                                  const std::string &text) {
  SettingValue like = field.get(Settings());
  if (std::holds_alternative<int64_t>(like))
    return int64_t(std::stoll(text));
  if (std::holds_alternative<double>(like))
    return std::strtod(text.c_str(), nullptr);
  if (std::holds_alternative<bool>(like))
    return true;
  if (std::holds_alternative<std::string>(like))
    return text;
  return splitAtCommas(text);
}

/// Gives a setting the value of a flag. Throws H0114 if another flag has given
/// it another value.
static void giveFromFlag(const SettingFlag &flag, const std::string &text,
                         const std::string &key, const SettingValue &value,
                         Merger &merger) {
  const Origin *origin = merger.originOf(key);
  const SettingField &field = settingOf(key);
  if (origin && field.get(merger.result.values) != value)
    failFlag(flag, text,
             origin->text + " gives " + key + " the value " +
                 settingToString(merger.result.values, field) +
                 ": give one of the two");
  merger.give(key, value, flagOrigin(flag));
}

void config::mergeFlag(const SettingFlag &flag, const std::string &text,
                       Merger &merger) {
  giveFromFlag(flag, text, flag.key, valueFromText(settingOf(flag.key), text),
               merger);
}

void config::mergeNothing(const SettingFlag &, const std::string &, Merger &) {}

//===----------------------------------------------------------------------===//
// The mesh
//===----------------------------------------------------------------------===//

static int64_t parseAxisSize(const SettingFlag &flag, const std::string &mesh,
                             std::string text) {
  const io::ValueRange &range = settingOf("data").range;
  if (!range.take(text))
    failFlag(flag, mesh, "as data=2, each with " + range.describe());
  return std::stoll(text);
}

void config::mergeMesh(const SettingFlag &flag, const std::string &mesh,
                       Merger &merger) {
  std::map<std::string, std::string> axes; // Settings by axis.
  for (const Setting &setting : allSettings())
    if (setting.section() == "mesh")
      axes[setting.name()] = setting.key;
  std::set<std::string> seen;
  for (const std::string &part : splitAtCommas(mesh)) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    auto axis = axes.find(name);
    bool known = axis != axes.end() || name == "expert";
    if (equals == std::string::npos || !known || !seen.insert(name).second)
      failFlag(flag, mesh,
               "give each axis once, as data=2,tensor=2,pipe=2,seq=1");
    int64_t size = parseAxisSize(flag, mesh, part.substr(equals + 1));
    if (axis != axes.end())
      giveFromFlag(flag, mesh, axis->second, size, merger);
    else if (size != 1)
      fail("H0115", "--mesh: experts on " + std::to_string(size) + " ranks",
           "leave out expert: no family with experts is known");
  }
}

/// Parses a list of targets and keeps its order. In the result, nullopt is the
/// word `auto`. Returns nothing if a word is no target or is repeated.
static std::optional<std::vector<std::optional<Target>>>
parseTargets(const std::string &text) {
  std::vector<std::optional<Target>> targets;
  for (const std::string &word : splitAtCommas(text)) {
    std::optional<Target> target = parseWord<Target>(word);
    if (!target && word != "auto")
      return std::nullopt;
    if (std::find(targets.begin(), targets.end(), target) != targets.end())
      return std::nullopt;
    targets.push_back(target);
  }
  return targets;
}

io::ValueRange config::targetsRange() {
  return io::ValueRange::matching(
      Range::wordsOf<Target>().describe() +
          " or auto, or several of them, each once, with commas (a GPU also "
          "runs code for older ones: sm_86 that of sm_80)",
      [](const std::string &text) { return parseTargets(text).has_value(); });
}

/// Returns the newest target that the GPU of this machine can run, or x86-64 if
/// the machine has no GPU.
static Target targetHere(ResolvedSettings &settings) {
  std::optional<rt::GpuHere> gpu = rt::findGpu(0);
  settings.hasNoGpu = !gpu;
  if (!gpu)
    return Target::X86_64;
  return gpu->capability >= 90 ? Target::SM_90 : Target::SM_80;
}

std::string config::warnOfTarget(const ResolvedSettings &settings) {
  return settings.hasNoGpu && settings.targets.size() == 1
             ? "--target auto: there is no GPU here, so it is x86-64; name a "
               "GPU, as sm_90, to compile for it elsewhere"
             : "";
}

void config::mergeTargets(const SettingFlag &flag, const std::string &text,
                          Merger &merger) {
  std::vector<Target> &targets = merger.result.targets;
  std::vector<std::optional<Target>> words = *parseTargets(text);
  for (std::optional<Target> word : words) {
    Target target = word ? *word : targetHere(merger.result);
    if (std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(target);
  }
  giveFromFlag(flag, text, flag.key, std::string(wordOf(targets.front())),
               merger);
}

void config::mergeDistributedOptimizer(const SettingFlag &flag,
                                       const std::string &, Merger &merger) {
  if (merger.isGiven(flag.key) && merger.result.values.zero == 0)
    fail("H0114", "--zero: \"0\" is not possible",
         flag.name() + " is --zero 1: give one of the two");
  merger.give(flag.key, int64_t(1), flagOrigin(flag));
}

//===----------------------------------------------------------------------===//
// Sizes and pairs
//===----------------------------------------------------------------------===//

void config::mergeByteSize(const SettingFlag &flag, const std::string &text,
                           Merger &merger) {
  std::optional<int64_t> bytes = parseByteSize(text);
  if (!bytes)
    failFlag(flag, text, "give " + flag.range.describe());
  merger.give(flag.key, *bytes, flagOrigin(flag));
}

static const std::string autoSize = "auto";

void config::mergeCacheSize(const SettingFlag &flag, const std::string &text,
                            Merger &merger) {
  if (text == autoSize)
    return merger.give(flag.key, int64_t(0), flagOrigin(flag));
  mergeByteSize(flag, text, merger);
}

io::ValueRange config::cacheSizeRange() {
  return io::ValueRange::matching(
      "auto, or a size from 1 byte, as 16GiB, 512MiB or 1000000",
      [](const std::string &text) {
        return text == autoSize || parseByteSize(text) > 0;
      });
}

/// Parses sizes for several kinds of memory. A single size without a kind is
/// the size of device memory.
static std::optional<std::map<std::string, int64_t>>
parseBudgets(const std::string &text) {
  static const std::map<std::string, std::string> settings = {
      {"device", "memory_budget"},
      {"host", "host_budget"},
      {"file", "file_budget"}};
  std::map<std::string, int64_t> budgets;
  bool isOne = text.find('=') == std::string::npos;
  for (const std::string &part :
       splitAtCommas(isOne ? "device=" + text : text)) {
    size_t equals = std::min(part.find('='), part.size());
    auto setting = settings.find(part.substr(0, equals));
    std::string size = part.substr(std::min(equals + 1, part.size()));
    if (setting == settings.end() || !sizeRange().take(size) ||
        !budgets.try_emplace(setting->second, *parseByteSize(size)).second)
      return std::nullopt;
  }
  return budgets;
}

io::ValueRange config::budgetsRange() {
  return io::ValueRange::matching(
      "a size from 1 byte, as 16GiB, or one for each of device, host and file, "
      "as device=8GiB,file=1TiB",
      [](const std::string &text) { return parseBudgets(text).has_value(); });
}

void config::mergeBudgets(const SettingFlag &flag, const std::string &text,
                          Merger &merger) {
  auto budgets = parseBudgets(text);
  if (!budgets)
    failFlag(flag, text, "give " + flag.range.describe());
  for (const auto &[key, bytes] : *budgets)
    merger.give(key, bytes, flagOrigin(flag));
}

io::ValueRange config::swapBlockRange() {
  return io::ValueRange::matching(
      "a size from 4KiB to 1GiB, as 1MiB or 262144",
      [](const std::string &text) {
        std::optional<int64_t> bytes = parseByteSize(text);
        return bytes && settingOf("swap_block_size").range.holds(*bytes);
      });
}

/// Returns the kind of memory that a device name in ds_config.json means, such
/// as `nvme`. Returns "" for an unknown name.
static std::string kindOfDsWord(const std::string &word) {
  return word == "nvme"   ? wordOf(MemoryKind::File)
         : word == "cpu"  ? wordOf(MemoryKind::Host)
         : word == "none" ? wordOf(MemoryKind::Device)
                          : "";
}

void config::mergePlace(const SettingFlag &flag, const std::string &text,
                        Merger &merger) {
  std::map<std::string, std::string> places; // Kinds of memory by setting.
  for (const std::string &line : splitAt("\n", text)) {
    std::set<std::string> seen;
    for (const std::string &part : splitAt(",", line)) {
      size_t equals = std::min(part.find('='), part.size());
      std::string kind = part.substr(std::min(equals + 1, part.size()));
      const OffloadedRole *role = findOffloadedRole(part.substr(0, equals));
      if (std::string meant = kindOfDsWord(kind); role && !meant.empty())
        failFlag(flag, line,
                 std::string("did you mean ") + role->name + "=" + meant + "?");
      if (!role || !parseWord<MemoryKind>(kind) ||
          !seen.insert(role->name).second)
        failFlag(flag, line,
                 "give optimizer, parameters, gradients or activations once, "
                 "each device, host, pinned or file, as optimizer=file");
      places[role->key] = kind;
    }
  }
  for (const auto &[key, kind] : places)
    giveFromFlag(flag, text, key, kind, merger);
}

/// Parses two numbers that are at least 0 and less than 1, for example
/// `0.9,0.999`.
static std::optional<std::pair<double, double>>
parseBetas(const std::string &text) {
  std::vector<std::string> parts = splitAtCommas(text);
  const io::ValueRange &range = settingOf("beta1").range;
  if (parts.size() != 2 || !range.take(parts[0]) || !range.take(parts[1]))
    return std::nullopt;
  // strtod is used since std::stod would throw on denormal numbers.
  return std::make_pair(std::strtod(parts[0].c_str(), nullptr),
                        std::strtod(parts[1].c_str(), nullptr));
}

io::ValueRange config::betasRange() {
  return io::ValueRange::matching(
      "two numbers from 0 to below 1, as 0.9,0.999",
      [](const std::string &text) { return parseBetas(text).has_value(); });
}

void config::mergeBetas(const SettingFlag &flag, const std::string &text,
                        Merger &merger) {
  std::optional<std::pair<double, double>> betas = parseBetas(text);
  if (!betas)
    failFlag(flag, text, "give " + flag.range.describe());
  merger.give("beta1", betas->first, flagOrigin(flag));
  merger.give("beta2", betas->second, flagOrigin(flag));
}

namespace {

/// Theta and gamma of progressive layer dropping, with their defaults.
struct ProgressiveDrop {
  double theta = usualTheta, gamma = Settings().layerDropGamma;
};

} // namespace

/// Parses `theta=X,gamma=Y`, or one of the two.
static std::optional<ProgressiveDrop>
parseProgressiveDrop(const std::string &text) {
  ProgressiveDrop drop;
  std::set<std::string> seen;
  for (const std::string &part : splitAtCommas(text)) {
    size_t equals = std::min(part.find('='), part.size());
    std::string name = part.substr(0, equals);
    std::string number = part.substr(std::min(equals + 1, part.size()));
    if ((name != "theta" && name != "gamma") || !seen.insert(name).second ||
        !settingOf("layer_drop_" + name).range.take(number))
      return std::nullopt;
    (name == "theta" ? drop.theta : drop.gamma) =
        std::strtod(number.c_str(), nullptr);
  }
  return drop;
}

io::ValueRange config::layerDropRange() {
  return io::ValueRange::matching(
      "theta=X above 0 and at most 1 and gamma=Y from 0, or one of them, as "
      "theta=0.5,gamma=0.001",
      [](const std::string &text) {
        return parseProgressiveDrop(text).has_value();
      });
}

void config::mergeLayerDrop(const SettingFlag &flag, const std::string &text,
                            Merger &merger) {
  std::optional<ProgressiveDrop> drop = parseProgressiveDrop(text);
  if (!drop)
    failFlag(flag, text, "give " + flag.range.describe());
  merger.give("layer_drop_theta", drop->theta, flagOrigin(flag));
  merger.give("layer_drop_gamma", drop->gamma, flagOrigin(flag));
}

void config::mergeGroups(const SettingFlag &flag, const std::string &text,
                         Merger &merger) {
  std::vector<std::string> groups;
  for (std::string group : splitAt("\n", text)) {
    // --group expects the description of a parameter group, for example
    // `bias:lr=0.1`. A user who gives a number instead, as in `--group 128`,
    // means --quantize-group.
    if (settingOf("quantize_group").range.take(group)) {
      giveFromFlag(flag, group, "quantize_group", int64_t(std::stoll(group)),
                   merger);
      continue;
    }
    groups.push_back(group);
    std::string wrong;
    if (!parseGroup(group, wrong))
      fail("H0140",
           flag.name() + ": \"" + group + "\" cannot be read: " + wrong,
           "as in --group 'bias:lr=0.1,weight_decay=0', or --group "
           "'wte:frozen'");
  }
  if (!groups.empty())
    merger.give(flag.key, groups, flagOrigin(flag));
}

void config::mergeMoq(const SettingFlag &flag, const std::string &text,
                      Merger &merger) {
  std::vector<std::string> groups;
  for (const std::string &group : splitAt("\n", text)) {
    std::string wrong;
    std::optional<QuantizedGroup> read = parseQuantizedGroup(group, wrong);
    if (!read)
      fail("H0140",
           flag.name() + ": \"" + group + "\" cannot be read: " + wrong,
           "as in --moq 'mlp start_bits=16 target_bits=8 period=100 "
           "modules=mlp'");
    groups.push_back(read->toText());
  }
  merger.give(flag.key, groups, flagOrigin(flag));
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

void config::mergeFlags(Merger &merger) {
  for (const SettingFlag &flag : settingFlags())
    if (std::optional<std::string> text = merger.flag(flag.name()))
      flag.merge(flag, *text, merger);
}
