//===- ModuleCosts.cpp - Costs by module of the model ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/ModuleCosts.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <nlohmann/json.hpp>
#include <set>

using namespace heddle;
using namespace heddle::rt;

std::string plan::modulePath(const std::string &path,
                             const std::string &layer) {
  size_t star = path.find('*');
  return star == std::string::npos || layer.empty()
             ? path
             : layer + path.substr(star + 1);
}

ModuleCosts &ModuleCosts::operator+=(const ModuleCosts &other) {
  parameters += other.parameters;
  macs += other.macs;
  flops += other.flops;
  kernelFlops += other.kernelFlops;
  modelFlops += other.modelFlops;
  bytes += other.bytes;
  forwardSeconds += other.forwardSeconds;
  backwardSeconds += other.backwardSeconds;
  return *this;
}

ModuleCosts ModuleNode::total() const {
  ModuleCosts sum = own;
  for (const auto &child : children)
    sum += child->total();
  return sum;
}

nlohmann::json ModuleNode::counts() const {
  ModuleCosts costs = total();
  return {{"path", path},
          {"parameters", costs.parameters},
          {"macs", int64_t(costs.macs)},
          {"flops", int64_t(costs.flops)},
          {"model_flops", int64_t(costs.modelFlops)},
          {"bytes", int64_t(costs.bytes)}};
}

ModuleNode &ModuleNode::at(const std::string &inner) {
  if (inner == path)
    return *this;
  size_t begin = path.empty() ? 0 : path.size() + 1;
  std::string next = inner.substr(0, inner.find('.', begin));
  auto found =
      std::find_if(children.begin(), children.end(),
                   [&](const auto &child) { return child->path == next; });
  if (found == children.end()) {
    children.push_back(std::make_unique<ModuleNode>());
    found = std::prev(children.end());
    (*found)->path = next;
  }
  return (*found)->at(inner);
}

void ModuleNode::walk(
    int64_t depth,
    const std::function<void(const ModuleNode &, int64_t level)> &visit,
    int64_t level) const {
  visit(*this, level);
  if (level < depth)
    for (const auto &child : children)
      child->walk(depth, visit, level + 1);
}

std::string heddle::rt::moduleOf(const plan::Plan &plan,
                                 const plan::Command &command, size_t share,
                                 const std::string &layer) {
  const auto *launch = command.as<plan::command::Launch>();
  bool isShared = launch && !launch->modules.empty();
  const std::string &path = isShared ? launch->modules.at(share) : command.path;
  // Operations outside of all modules have the name of the family.
  return path == plan.family ? "" : plan::modulePath(path, layer);
}

namespace {

/// Walks the command sequences of a program and adds the costs of launches to
/// their modules.
class ModuleCounter {
public:
  explicit ModuleCounter(const plan::Plan &plan) : plan(plan) {}

  void count(int64_t sequence, double times, const std::string &layer,
             int depth = 0);
  void countParameters();

  ModuleCount result;

private:
  void addLaunch(const plan::Command &command,
                 const plan::command::Launch &launch, double times,
                 const std::string &layer);

  const plan::Plan &plan;
};

} // namespace

void ModuleCounter::addLaunch(const plan::Command &command,
                              const plan::command::Launch &launch, double times,
                              const std::string &layer) {
  const std::vector<plan::ModuleShare> &shares =
      plan.kernels.at(launch.kernel).shares;
  if (!launch.modules.empty() && launch.modules.size() != shares.size())
    fail("H0385",
         "the plan is malformed: a launch of '" +
             plan.kernels[launch.kernel].name + "' names the wrong modules",
         "compile the binary again");
  result.launches += int64_t(times);
  result.sharedLaunches += launch.modules.empty() ? 0 : int64_t(times);
  for (size_t i = 0; i < shares.size(); ++i) {
    ModuleCosts costs;
    costs.macs = times * shares[i].macs;
    costs.flops = times * shares[i].profilerFlops;
    costs.kernelFlops = times * shares[i].flops;
    costs.modelFlops = times * shares[i].modelFlops;
    costs.bytes = times * shares[i].bytes;
    result.model.at(moduleOf(plan, command, i, layer)).own += costs;
  }
}

void ModuleCounter::count(int64_t sequence, double times,
                          const std::string &layer, int depth) {
  if (depth > 64)
    fail("H0385",
         "the plan is malformed: sequences call each other without end",
         "compile the binary again");
  for (const plan::Command &command : plan.sequences.at(sequence).commands) {
    if (const auto *launch = command.as<plan::command::Launch>())
      addLaunch(command, *launch, times, layer);
    bool isLayer = command.as<plan::command::Call>() && !command.path.empty();
    for (plan::SequenceRuns runs : plan::runsOf(command))
      count(runs.sequence, times * double(runs.times),
            isLayer ? command.path : layer, depth + 1);
  }
}

void ModuleCounter::countParameters() {
  std::set<std::string> counted;
  for (const plan::State &state : plan.states) {
    bool isPacked = !state.packed.empty() &&
                    state.packed[0].part == plan::PackedPart::Words;
    bool isParameter = state.role == plan::StateRole::Parameter &&
                       state.type != plan::DType::I32;
    if (!isPacked && !isParameter)
      continue;
    const std::string &name = isPacked ? state.packed[0].name : state.name;
    if (!counted.insert(name).second)
      continue;
    int64_t elements = 1;
    for (int64_t extent : isPacked ? state.packed[0].shape : state.shape)
      elements *= extent;
    size_t dot = name.rfind('.');
    result.model.at(dot == std::string::npos ? "" : name.substr(0, dot))
        .own.parameters += elements;
  }
}

ModuleCount heddle::rt::countModules(const plan::Plan &plan,
                                     const plan::Program &program) {
  ModuleCounter counter(plan);
  counter.count(program.sequence, 1, "");
  counter.countParameters();
  return std::move(counter.result);
}

const plan::Program &heddle::rt::forwardProgram(const plan::Plan &plan) {
  const plan::Program *eval = plan.findProgram(plan::ProgramKind::Eval);
  return eval ? *eval : plan.programs.front();
}
