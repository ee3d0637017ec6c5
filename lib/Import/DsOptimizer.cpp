//===- DsOptimizer.cpp - Optimizer and schedule of a ds_config ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the sections `optimizer`, `scheduler` and `progressive_layer_drop` of a
// ds_config.json, and the flags that change a schedule.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

/// Returns the member of a section, or null if it is absent, null or "auto".
static const io::JsonValue *findGiven(const io::JsonValue *object,
                                      const char *key) {
  const io::JsonValue *value = object ? object->findNonNull(key) : nullptr;
  return value && !isAuto(*value) ? value : nullptr;
}

/// Throws H0111 for an optimizer or schedule that is not in `known`. If it is
/// in `others`, which lists types that DeepSpeed has, the message says that it
/// is not supported.
static void checkType(const io::JsonValue &type, const char *what,
                      const std::vector<std::string> &known,
                      const std::vector<std::string> &others) {
  const std::string &name = type.asString();
  if (std::find(known.begin(), known.end(), name) != known.end())
    return;
  std::string all;
  for (const std::string &candidate : known)
    all += (all.empty() ? "" : ", ") + candidate;
  for (const std::string &other : others)
    if (name == other)
      type.fail("H0111", std::string(what) + " " + name + " is not supported",
                "use one of " + all);
  std::string near = closestMatch(name, known);
  type.fail("H0111", "unknown " + std::string(what) + " \"" + name + "\"",
            near.empty() ? "use one of " + all
                         : "did you mean \"" + near + "\"?");
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

void config::readBetas(const SettingField &field, const io::JsonValue &betas,
                       Merger &merger) {
  if (isAuto(betas))
    return merger.leaveOpen(betas.path(), field.key);
  const std::vector<io::JsonValue> &pair = betas.elements();
  if (pair.size() != 2)
    betas.failType("a list of two numbers");
  merger.give("beta1", pair[0].asNumber(), fileOrigin(pair[0]));
  merger.give("beta2", pair[1].asNumber(), fileOrigin(pair[1]));
}

/// Converts to lower case, since DeepSpeed ignores the case of names.
static std::string lowered(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::optional<Optimizer> config::findOptimizer(const io::JsonValue &type) {
  for (const char *word : Words<Optimizer>::all)
    if (lowered(word) == lowered(type.asString()))
      return parseWord<Optimizer>(word);
  return std::nullopt;
}

static Optimizer readOptimizer(const io::JsonValue &type) {
  if (std::optional<Optimizer> found = findOptimizer(type))
    return *found;
  const auto &words = Words<Optimizer>::all;
  checkType(type, "optimizer", {words.begin(), words.end()},
            {"Adagrad", "MuAdam", "MuAdamW", "MuSGD", "Muon", "SGD"});
  return {};
}

/// Marks the parameters that this optimizer does not use, for
/// `--explain-config`.
static void markUnused(Optimizer optimizer, const io::JsonValue *params,
                       Merger &merger) {
  auto mark = [&](const char *key, const std::string &why) {
    if (const io::JsonValue *value = findGiven(params, key))
      merger.mark(value->path(), "no meaning here", why);
  };
  const std::string name = wordOf(optimizer);
  if (optimizer != Optimizer::Adam)
    mark("adam_w_mode", name + ": weight decay is apart from the gradient");
  if (optimizer == Optimizer::Lion)
    mark("eps", name + " divides by no second moment");
  if (optimizer != Optimizer::Adam && optimizer != Optimizer::AdamW)
    mark("torch_adam", "the optimizer is " + name);
}

void config::mergeOptimizer(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = root.find("optimizer");
  if (!section)
    return;
  const io::JsonValue &type = section->at("type");
  if (const Origin *origin = merger.originOf("optimizer");
      origin && !findOptimizer(type))
    return merger.mark(type.path(), "overridden", origin->describe() + " wins");
  Optimizer optimizer = readOptimizer(type);
  const io::JsonValue *params = section->findNonNull("params");
  const io::JsonValue *mode =
      optimizer == Optimizer::Adam ? findGiven(params, "adam_w_mode") : nullptr;
  bool decoupled = !mode || mode->asBool();
  merger.give("optimizer", toSettingValue(optimizer), fileOrigin(type));
  merger.give("decoupled", decoupled, fileOrigin(mode ? *mode : type));
  merger.mark(type.path(), "applied",
              decoupled ? "weight decay apart from the gradient"
                        : "weight decay as a part of the gradient");
  markUnused(optimizer, params, merger);
  if (merger.isOpen("weight_decay"))
    return;
  // The default of weight decay is 0 in DeepSpeed's Adam and in
  // torch.optim.Adam, but 0.01 in torch.optim.AdamW.
  const io::JsonValue *torch = findGiven(params, "torch_adam");
  bool isAdam = optimizer == Optimizer::Adam || optimizer == Optimizer::AdamW;
  bool isTorchAdamW = torch && torch->asBool() && isAdam && decoupled;
  merger.give("weight_decay", isTorchAdamW ? 0.01 : 0.0,
              {Origin::Kind::Derived,
               isTorchAdamW ? "torch.optim.AdamW's default"
                            : "DeepSpeed's default for the optimizer",
               {}});
}

void config::mergeOptimizerDefaults(Merger &merger) {
  if (merger.result.values.optimizer == Optimizer::Lion &&
      !merger.isGiven("beta2"))
    merger.give("beta2", 0.99, {Origin::Kind::Derived, "Lion's default", {}});
}

//===----------------------------------------------------------------------===//
// Layer dropping
//===----------------------------------------------------------------------===//

void config::mergeProgressiveLayerDrop(const io::JsonValue &root,
                                       Merger &merger) {
  const io::JsonValue *section = root.find("progressive_layer_drop");
  if (!section || !section->isObject())
    return;
  const io::JsonValue *enabled = section->find("enabled");
  if (!enabled || !enabled->asBool()) {
    for (const io::JsonMember &member : section->members())
      merger.mark(member.value.path(), "no meaning here", "off");
    return;
  }
  auto give = [&](const char *key, const char *name, double fallback) {
    if (const io::JsonValue *value = section->find(name))
      readKey(settingOf(key), *value, merger);
    else
      merger.give(key, fallback, fileOrigin(*enabled));
  };
  give("layer_drop_theta", "theta", usualTheta);
  give("layer_drop_gamma", "gamma", Settings().layerDropGamma);
}

//===----------------------------------------------------------------------===//
// Scheduler
//===----------------------------------------------------------------------===//

namespace {

/// A parameter of a learning rate schedule.
struct Parameter {
  enum class Kind { Number, Integer, Bool, String };
  const char *name;
  Kind kind;
  const char *fallback; ///< As JSON; "" if it must be given.
  double minimum = -1e300;
};

using K = Parameter::Kind;

const std::vector<std::pair<Scheduler, std::vector<Parameter>>> &schedules() {
  const Parameter minLr = {"warmup_min_lr", K::Number, "0.0", 0};
  const Parameter steps = {"warmup_num_steps", K::Integer, "1000", 0};
  const Parameter total = {"total_num_steps", K::Integer, "", 1};
  const Parameter type = {"warmup_type", K::String, "\"log\""};
  static const std::vector<std::pair<Scheduler, std::vector<Parameter>>> all = {
      {Scheduler::WarmupLR,
       {minLr, {"warmup_max_lr", K::Number, "null", 0}, steps, type}},
      {Scheduler::WarmupDecayLR,
       {total, minLr, {"warmup_max_lr", K::Number, "0.001", 0}, steps, type}},
      {Scheduler::WarmupCosineLR,
       {total,
        {"warmup_min_ratio", K::Number, "0.0", 0},
        steps,
        {"cos_min_ratio", K::Number, "0.0001", 0},
        type}},
      {Scheduler::OneCycle,
       {{"cycle_min_lr", K::Number, "", 0},
        {"cycle_max_lr", K::Number, "", 0},
        {"decay_lr_rate", K::Number, "0.0", 0},
        {"cycle_first_step_size", K::Integer, "2000", 1},
        {"cycle_second_step_size", K::Integer, "null", 1},
        {"cycle_first_stair_count", K::Integer, "0", 0},
        {"cycle_second_stair_count", K::Integer, "null", 0},
        {"decay_step_size", K::Integer, "0", 0},
        {"cycle_momentum", K::Bool, "true"},
        {"cycle_min_mom", K::Number, "0.8", 0},
        {"cycle_max_mom", K::Number, "0.9", 0},
        {"decay_mom_rate", K::Number, "0.0", 0}}},
      {Scheduler::LRRangeTest,
       {{"lr_range_test_min_lr", K::Number, "0.001", 0},
        {"lr_range_test_step_size", K::Integer, "2000", 1},
        {"lr_range_test_step_rate", K::Number, "1.0", 0},
        {"lr_range_test_staircase", K::Bool, "false"}}}};
  return all;
}

const std::vector<Parameter> &parametersOf(Scheduler scheduler) {
  for (const auto &[schedule, parameters] : schedules())
    if (schedule == scheduler)
      return parameters;
  static const std::vector<Parameter> none;
  return none;
}

} // namespace

std::vector<DsKey> config::scheduleKeys() {
  std::map<std::string, unsigned> types = {
      {"last_batch_iteration", DsNumber | DsAuto | DsNull}};
  for (const auto &[schedule, parameters] : schedules())
    for (const Parameter &parameter : parameters)
      types[parameter.name] = parameter.kind == K::Bool ? DsBool
                              : parameter.kind == K::String
                                  ? DsString | DsAuto
                                  : DsNumber | DsAuto | DsNull;
  std::vector<DsKey> keys;
  for (const auto &[name, type] : types)
    keys.push_back({"scheduler.params." + name, type, DsRule::Applied, "", "",
                    readNothing});
  return keys;
}

static nlohmann::json readParameter(const Parameter &parameter,
                                    const io::JsonValue &value) {
  nlohmann::json result;
  double number = 0;
  switch (parameter.kind) {
  case K::Bool:
    return value.asBool();
  case K::String:
    return value.asString();
  case K::Number:
    number = value.asNumber();
    if (!std::isfinite(number))
      value.failType("a finite number");
    result = number;
    break;
  case K::Integer:
    number = double(value.asInteger());
    result = value.asInteger();
    break;
  }
  if (!(number >= parameter.minimum))
    value.fail("H0110",
               "\"" + value.path() + "\" is " + result.dump() +
                   ", below the least that is possible",
               "give a number from " +
                   nlohmann::json(parameter.minimum).dump());
  return result;
}

/// Reports parameters that belong to another schedule than `type` (H0107).
static void checkForeign(const io::JsonValue &params, Scheduler type,
                         Merger &merger) {
  std::vector<std::string> names = {"last_batch_iteration"};
  for (const Parameter &parameter : parametersOf(type))
    names.push_back(parameter.name);
  for (const io::JsonMember &member : params.members()) {
    if (std::find(names.begin(), names.end(), member.key) != names.end())
      continue;
    std::string near = closestMatch(member.key, names);
    merger.problems.add(
        {"H0107",
         std::string(wordOf(type)) + " has no parameter \"" + member.key + "\"",
         member.keyLocation(),
         {},
         near.empty() ? "remove it" : "did you mean \"" + near + "\"?"});
  }
}

/// Throws an error for schedule parameters that DeepSpeed accepts but Heddle
/// does not support.
static void checkSchedule(Scheduler type, const nlohmann::json &values,
                          const io::JsonValue &section,
                          const io::JsonValue *params) {
  if (const io::JsonValue *last = findGiven(params, "last_batch_iteration"))
    if (last->asInteger() != -1)
      last->fail("H0108",
                 "\"last_batch_iteration\": a run goes on with --resume",
                 "remove it");
  if (type == Scheduler::OneCycle && values["cycle_momentum"] == true)
    section.fail("H0108",
                 "OneCycle with cycle_momentum (its default) changes beta1 "
                 "while training: not supported",
                 "add \"cycle_momentum\": false to its params");
  if (values.contains("warmup_type") && values["warmup_type"] != "log" &&
      values["warmup_type"] != "linear")
    params->at("warmup_type")
        .fail("H0110", "\"warmup_type\" must be \"log\" or \"linear\"",
              "use \"log\", DeepSpeed's default");
}

namespace {

/// Reads the parameters of one schedule.
class ScheduleReader {
public:
  ScheduleReader(const io::JsonValue &type, const io::JsonValue *params,
                 Merger &merger)
      : type(type), params(params), merger(merger) {}
  nlohmann::json read();

private:
  nlohmann::json readOpen(const Parameter &parameter,
                          const io::JsonValue &written);
  [[noreturn]] void failMissing(const Parameter &parameter,
                                const io::JsonValue *written);

  const io::JsonValue &type;
  const io::JsonValue *params;
  Merger &merger;
};

} // namespace

void ScheduleReader::failMissing(const Parameter &parameter,
                                 const io::JsonValue *written) {
  std::string name = parameter.name;
  (written ? *written : type)
      .fail(written ? "H0112" : "H0106",
            type.asString() + " needs \"" + name + "\"" +
                (written ? ", and nothing fills it here" : ""),
            (name == "total_num_steps" ? "give --train-steps N, or add \""
                                       : "add \"") +
                name + "\" with a number to its params");
}

/// Returns the value of a parameter that is "auto": the value of Hugging Face's
/// Trainer if it sets this parameter, else the default.
nlohmann::json ScheduleReader::readOpen(const Parameter &parameter,
                                        const io::JsonValue &written) {
  std::string name = parameter.name;
  nlohmann::json value = nlohmann::json::parse(parameter.fallback);
  if (name == "warmup_max_lr" && merger.isGiven("lr")) {
    merger.mark(written.path(), "applied", "auto: the optimizer's lr");
    return merger.result.values.lr;
  }
  if (name == "warmup_max_lr")
    value = 5e-5;
  if (name == "warmup_num_steps")
    value = 0;
  if (!merger.isGiven("scheduler"))
    merger.result.unfilled.emplace_back(written.path(), value.dump());
  return value;
}

nlohmann::json ScheduleReader::read() {
  nlohmann::json values = nlohmann::json::object();
  for (const Parameter &parameter :
       parametersOf(*parseWord<Scheduler>(type.asString()))) {
    std::string name = parameter.name;
    const io::JsonValue *written = params ? params->findNonNull(name) : nullptr;
    bool byFlag =
        (name == "warmup_num_steps" && merger.flag("--warmup-steps")) ||
        (name == "total_num_steps" && merger.flag("--train-steps"));
    merger.problems.attempt([&] {
      if (written && !isAuto(*written))
        values[name] = readParameter(parameter, *written);
      else if (byFlag)
        values[name] = 0; // mergeScheduleFlags sets the value.
      else if (*parameter.fallback == 0)
        failMissing(parameter, written);
      else if (written)
        values[name] = readOpen(parameter, *written);
      else
        values[name] = nlohmann::json::parse(parameter.fallback);
    });
    if (values.contains(name) && values[name].is_null())
      values.erase(name);
  }
  return values;
}

void config::mergeScheduler(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = root.find("scheduler");
  if (!section)
    return;
  const io::JsonValue &type = section->at("type");
  if (type.isNull())
    return;
  std::vector<std::string> names;
  for (const auto &entry : schedules())
    names.push_back(wordOf(entry.first));
  checkType(type, "schedule", names, {});
  Scheduler name = *parseWord<Scheduler>(type.asString());
  const io::JsonValue *params = section->findNonNull("params");
  if (params)
    checkForeign(*params, name, merger);
  nlohmann::json values = ScheduleReader(type, params, merger).read();
  checkSchedule(name, values, *section, params);
  merger.give("scheduler", toSettingValue(name), fileOrigin(type));
  merger.give("scheduler_params", values.dump(),
              fileOrigin(params ? *params : type));
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// Sets a parameter of the schedule to a flag's value, and says so in the
/// parameter's row in the table of `--explain-config`.
static void setParameter(nlohmann::json &params, const char *name,
                         const nlohmann::json &value, const char *flag,
                         Merger &merger) {
  Settings &values = merger.result.values;
  bool isKnown = false;
  for (const Parameter &parameter : parametersOf(values.scheduler))
    isKnown |= parameter.name == std::string(name);
  if (!isKnown)
    fail("H0123",
         std::string(flag) + ": the schedule " + wordOf(values.scheduler) +
             " has no parameter " + name,
         "leave out " + std::string(flag) +
             ", or give the schedule's own parameters");
  params[name] = value;
  merger.result.setOrigin("scheduler_params", {Origin::Kind::Flag, flag, {}});
  std::string path = std::string("scheduler.params.") + name;
  std::string source = std::string("flag ") + flag;
  for (const ExplainRow &row : merger.result.rows)
    if (row.key == path && row.value == "\"auto\"")
      return merger.mark(path, "applied", "auto: " + source);
  merger.mark(path, "overridden", source + " wins");
}

void config::mergeScheduleFlags(Merger &merger) {
  const std::optional<std::string> warmup = merger.flag("--warmup-steps");
  const std::optional<std::string> train = merger.flag("--train-steps");
  Settings &values = merger.result.values;
  if (values.scheduler == Scheduler::None) {
    if (!warmup && !train)
      return;
    // If no other source gives a schedule, these flags choose one of the
    // Trainer's schedules: `linear`, or `constant_with_warmup` if only
    // --warmup-steps is given.
    const char *flag = train ? "--train-steps" : "--warmup-steps";
    values.scheduler = train ? Scheduler::WarmupDecayLR : Scheduler::WarmupLR;
    values.schedulerParams = nlohmann::json({{"warmup_min_lr", 0.0},
                                             {"warmup_max_lr", values.lr},
                                             {"warmup_num_steps", 0},
                                             {"warmup_type", "linear"}})
                                 .dump();
    merger.result.setOrigin("scheduler", {Origin::Kind::Flag, flag, {}});
  }
  nlohmann::json params = nlohmann::json::parse(values.schedulerParams);
  if (warmup)
    setParameter(params, "warmup_num_steps", std::stoll(*warmup),
                 "--warmup-steps", merger);
  if (train)
    setParameter(params, "total_num_steps", std::stoll(*train), "--train-steps",
                 merger);
  // WarmupCosineLR always uses the optimizer's learning rate, WarmupLR only if
  // `warmup_max_lr` is absent.
  bool takesRate = values.scheduler == Scheduler::WarmupCosineLR ||
                   (values.scheduler == Scheduler::WarmupLR &&
                    !params.contains("warmup_max_lr"));
  if (merger.flag("--lr") && !takesRate)
    setParameter(params, "warmup_max_lr", values.lr, "--lr", merger);
  values.schedulerParams = params.dump();
}
