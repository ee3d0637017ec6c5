//===- Hyperparameters.cpp - Hyperparameters of a training run ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/Hyperparameters.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/optim/LearningRate.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;
using P = plan::RateParameter;
using S = plan::RateSchedule;

/// A number for people: 0.001, 5e-05, 1000.
static std::string textOf(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

/// A JSON number: an integer if the value is whole.
static json jsonOf(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? json(int64_t(value))
             : json(value);
}

static std::string flagOf(const std::string &name) {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Hyperparameters::Hyperparameters(const plan::Plan &plan)
    : optimizer(plan.optimizer), scheduler(plan.scheduler) {
  auto look = [&](const std::vector<plan::Program> &programs) {
    for (const plan::Program &program : programs)
      for (const plan::Port &port : program.inputs) {
        takesDecay |= port.name == plan::weightDecayPort;
        takesNorm |= port.name == plan::maxNormPort;
      }
  };
  look(plan.programs);
  // In a pipeline, each stage has its own programs. Their updates may read the
  // weight decay and the maximum norm, too.
  for (const plan::Stage &stage : plan.stages)
    look(stage.programs);
}

/// Whether --lr sets the optimizer's rate: true if the schedule multiplies that
/// rate, or has no highest rate of its own.
bool Hyperparameters::hasOwnRate() const {
  return scheduler.type == S::Constant || scheduler.type == S::WarmupCosineLR ||
         (scheduler.type == S::WarmupLR &&
          !scheduler.parameters.count(P::WarmupMaxLr));
}

std::optional<P> Hyperparameters::parameterOf(const std::string &name) const {
  static const std::map<std::pair<S, std::string>, P> parameters = {
      {{S::WarmupLR, "lr"}, P::WarmupMaxLr},
      {{S::WarmupLR, "min_lr"}, P::WarmupMinLr},
      {{S::WarmupLR, "warmup_steps"}, P::WarmupNumSteps},
      {{S::WarmupDecayLR, "lr"}, P::WarmupMaxLr},
      {{S::WarmupDecayLR, "min_lr"}, P::WarmupMinLr},
      {{S::WarmupDecayLR, "warmup_steps"}, P::WarmupNumSteps},
      {{S::WarmupDecayLR, "train_steps"}, P::TotalNumSteps},
      {{S::WarmupCosineLR, "min_lr"}, P::CosMinRatio},
      {{S::WarmupCosineLR, "warmup_steps"}, P::WarmupNumSteps},
      {{S::WarmupCosineLR, "train_steps"}, P::TotalNumSteps},
      {{S::OneCycle, "lr"}, P::CycleMaxLr},
      {{S::OneCycle, "min_lr"}, P::CycleMinLr},
      {{S::LRRangeTest, "min_lr"}, P::LrRangeTestMinLr}};
  auto found = parameters.find({scheduler.type, name});
  return found == parameters.end() ? std::nullopt
                                   : std::optional(found->second);
}

/// With --warmup-steps or --train-steps, a constant rate becomes the schedule
/// that `compile` would make of these flags.
void Hyperparameters::addSchedule(const HyperValues &told) {
  bool decays = told.count("train_steps") > 0;
  if (scheduler.type != S::Constant || (!decays && !told.count("warmup_steps")))
    return;
  scheduler.type = decays ? S::WarmupDecayLR : S::WarmupLR;
  scheduler.parameters = {{P::WarmupMinLr, 0},
                          {P::WarmupMaxLr, optimizer.lr},
                          {P::WarmupNumSteps, 0},
                          {P::WarmupType, 1}};
}

bool Hyperparameters::has(const std::string &name) const {
  return (name == "lr" && hasOwnRate()) ||
         (name == "weight_decay" && takesDecay) ||
         (name == "clip" && takesNorm) || parameterOf(name);
}

/// Sets the weight decay or the gradient clipping.
void Hyperparameters::setOfUpdate(const std::string &name, double value) {
  bool isDecay = name == "weight_decay";
  if (!has(name) && isDecay)
    fail("H0178",
         "--weight-decay: no parameter of this binary has the run's weight "
         "decay: each has none, or that of its group",
         "leave out --weight-decay, or compile with other --no-decay and "
         "--group");
  if (!has(name))
    fail("H0178", "--clip: this binary was compiled without clipping",
         "leave out --clip, or compile with \"gradient_clipping\": 1.0 in "
         "ds_config.json");
  (isDecay ? optimizer.weightDecay : optimizer.gradientClipping) = value;
}

void Hyperparameters::set(const std::string &name, double value) {
  if (name == "lr" && hasOwnRate()) {
    optimizer.lr = value;
    return;
  }
  if (name == "weight_decay" || name == "clip") {
    setOfUpdate(name, value);
    return;
  }
  std::optional<P> parameter = parameterOf(name);
  bool isConstant = scheduler.type == S::Constant;
  if (!parameter)
    fail("H0123",
         flagOf(name) + ": " +
             (isConstant ? std::string("the learning rate is constant, it")
                         : std::string("the schedule ") +
                               plan::nameOf(scheduler.type)) +
             " has no such number",
         "leave out " + flagOf(name) +
             (isConstant ? ", or add --train-steps N"
                         : ", or compile with another schedule"));
  // This parameter is the lowest rate as a fraction of the highest one.
  if (parameter == P::CosMinRatio)
    value = optimizer.lr > 0 ? value / optimizer.lr : 0;
  scheduler.parameters[*parameter] = value;
  toldParameters.insert(*parameter);
}

HyperValues Hyperparameters::tell(const HyperValues &flags,
                                  const HyperValues &before) {
  HyperValues told = flags;
  told.insert(before.begin(), before.end());
  addSchedule(told);
  for (const auto &[name, value] : before)
    if (!flags.count(name) && !has(name))
      told.erase(name);
  // Set the highest rate first: the lowest one may be a fraction of it.
  HyperValues others = told;
  if (auto rate = others.extract("lr"))
    set("lr", rate.mapped());
  for (const auto &[name, value] : others)
    set(name, value);
  HyperValues now = values();
  auto lowest = told.find("min_lr");
  if (lowest != told.end() && now.count("lr") && lowest->second > now["lr"])
    fail("H0176",
         "--min-lr " + textOf(lowest->second) +
             " is above the highest learning rate, which is " +
             textOf(now["lr"]),
         "give one from 0 to " + textOf(now["lr"]));
  return told;
}

HyperValues Hyperparameters::values() const {
  HyperValues values;
  if (hasOwnRate())
    values["lr"] = optimizer.lr;
  for (const char *name : {"lr", "min_lr", "warmup_steps", "train_steps"}) {
    auto parameter = parameterOf(name);
    if (parameter && scheduler.parameters.count(*parameter))
      values[name] = scheduler.parameters.at(*parameter);
  }
  if (scheduler.type == S::WarmupCosineLR && values.count("min_lr"))
    values["min_lr"] *= optimizer.lr;
  values["weight_decay"] = optimizer.weightDecay;
  values["clip"] = optimizer.gradientClipping;
  return values;
}

std::string Hyperparameters::text() const {
  std::string text = optimizer.type;
  text += ", ";
  text += scheduler.type == S::Constant ? "constant rate"
                                        : plan::nameOf(scheduler.type);
  for (const auto &[name, value] : values())
    text += ", " + name + " " + textOf(value);
  return text;
}

nlohmann::ordered_json Hyperparameters::toJson() const {
  nlohmann::ordered_json all = {{"optimizer", optimizer.type}};
  for (const auto &[name, value] : values())
    all[name] = jsonOf(value);
  all["beta1"] = optimizer.beta1;
  all["beta2"] = optimizer.beta2;
  all["eps"] = optimizer.eps;
  all["decoupled"] = optimizer.decoupled;
  all["schedule"] = plan::nameOf(scheduler.type);
  json parameters = describeParameters(scheduler);
  for (P told : toldParameters)
    parameters[plan::nameOf(told)] = jsonOf(scheduler.parameters.at(told));
  all["schedule_parameters"] = parameters;
  return all;
}

std::vector<std::string> heddle::rt::describeChanges(const HyperValues &before,
                                                     const HyperValues &now) {
  std::vector<std::string> changes;
  auto was = [](const HyperValues &values, const std::string &name) {
    auto found = values.find(name);
    return found == values.end() ? "none" : textOf(found->second);
  };
  HyperValues all = now;
  all.insert(before.begin(), before.end());
  for (const auto &[name, value] : all)
    if (std::string then = was(before, name); then != was(now, name))
      changes.push_back(name + " " + was(now, name) + " (before: " + then +
                        ")");
  return changes;
}
