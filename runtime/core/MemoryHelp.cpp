//===- MemoryHelp.cpp - Advice for too little memory ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/RunChoices.h"

#include <algorithm>
#include <limits>
#include <sys/sysinfo.h>

using namespace heddle;

namespace heddle::plan {

static const char *ownerOf(StateRole role, bool hasParameter) {
  switch (role) {
  case StateRole::Parameter:
    return "parameters";
  case StateRole::Derived:
    return hasParameter ? "parameters in compute precision" : "packed weights";
  case StateRole::Gradient:
    return "gradients";
  case StateRole::Saved:
    return "activations of micro-batches under way";
  case StateRole::Cache:
    return "cache";
  case StateRole::Constant:
    return "attention layouts";
  case StateRole::Optimizer:
    return "optimizer";
  case StateRole::Scalar:
    return hasParameter ? "parameters with local steps" : "accumulators";
  case StateRole::Accumulator:
    break;
  }
  return "accumulators";
}

std::string stateOwner(StateRole role, bool hasParameter, MemoryKind memory) {
  std::string owner = ownerOf(role, hasParameter);
  if (memory == MemoryKind::Device)
    return owner;
  return owner + (memory == MemoryKind::File
                      ? " on file"
                      : std::string(" in ") + nameOf(memory) + " memory");
}

/// The uses of memory, such as activations or optimizer states, largest first.
/// An error about too little memory names the largest ones.
static std::vector<Owner> sortedOwners(const Memory &memory) {
  std::vector<Owner> owners = memory.owners;
  std::stable_sort(
      owners.begin(), owners.end(),
      [](const Owner &a, const Owner &b) { return a.bytes > b.bytes; });
  return owners;
}

std::string largestOwners(const Memory &memory) {
  std::string text;
  std::vector<Owner> owners = sortedOwners(memory);
  for (size_t i = 0; i < std::min<size_t>(2, owners.size()); ++i)
    text += (i > 0 ? ", " : "") + owners[i].name + " " +
            formatBytes(owners[i].bytes);
  return text;
}

/// Names the flags that make the saved activations of a training step smaller,
/// for the help of an error about too little memory.
static std::string smallerActivations(const Plan &plan) {
  std::string help = "a --seq below " + std::to_string(plan.seq);
  if (plan.microBatch > 1)
    help += ", a --micro-batch below " + std::to_string(plan.microBatch);
  if (plan.recompute != "full")
    help += ", or --recompute full";
  return help;
}

static std::string smallerStates(const Plan &plan, const std::string &owner) {
  std::string ranks = plan.mesh.ranks() > 1 ? "more ranks" : "several ranks";
  std::string role =
      owner == "parameters in compute precision" ? "parameters" : owner;
  return "--zero 3 on " + ranks + " (--mesh data=N), or --place " + role +
         "=file";
}

static std::string smallerOwner(const Plan &plan, const std::string &owner) {
  if (owner == scratchOwner)
    return "fewer --threads";
  if (owner == "cache")
    return "a smaller --kv-cache or --max-context";
  if (plan.findProgram(ProgramKind::Train) == nullptr)
    return "--quantize int8, or several ranks (--mesh tensor=N)";
  for (const char *role : {"parameters", "parameters in compute precision",
                           "gradients", "optimizer"})
    if (owner == role)
      return smallerStates(plan, owner);
  return smallerActivations(plan);
}

std::string helpForMemory(const Plan &plan) {
  std::vector<Owner> owners = sortedOwners(plan.memory);
  std::string owner = owners.empty() ? "activations" : owners.front().name;
  return "compile with " + smallerOwner(plan, owner) +
         "; compile --memory-budget SIZE names flags with which a plan fits";
}

int64_t machineBytes() {
  struct sysinfo machine = {};
  if (sysinfo(&machine) != 0)
    return std::numeric_limits<int64_t>::max();
  return int64_t(machine.totalram + machine.totalswap) * machine.mem_unit;
}

} // namespace heddle::plan
