//===- DsOffload.cpp - Offload keys of a ds_config.json -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads from a ds_config.json where DeepSpeed offloads states and parameters,
// in which directories it puts offload files, and which states the host
// updates.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include "heddle/Settings/OffloadedRoles.h"
#include "heddle/runtime/io/OffloadDirectories.h"

using namespace heddle;
using namespace heddle::config;

/// Gives a setting the value `host`. If the target is a CPU, marks the key as
/// without meaning instead, since a CPU's device memory is host memory.
static void giveHost(const SettingField &field, const io::JsonValue &value,
                     Merger &merger) {
  if (factsOf(merger.result.values.target).hasDeviceMemory)
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
  else
    merger.mark(value.path(), "no meaning here", "off");
}

/// Returns the value at a path of keys, or null. A section may be a boolean in
/// old files; it then has no members. Null is also returned if a section has a
/// wrong type, since that error is reported elsewhere.
static const io::JsonValue *valueAt(const io::JsonValue &root,
                                    std::initializer_list<const char *> keys) {
  const io::JsonValue *value = &root;
  for (const char *key : keys)
    value = value && value->isObject() ? value->findNonNull(key) : nullptr;
  return value;
}

/// If ds_config.json places states in host memory, and `wish` (the value of
/// `pin_memory`) is true, places them in pinned memory instead. If `wish` has
/// no effect, marks the key so for `--explain-config`.
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

/// The `nvme_path` of a section, or null if it names no directory.
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
  return values.*findOffloadedRole(plan::nameOf(role))->place ==
         MemoryKind::File;
}

/// Returns the directory that an `nvme_path` gives for offload files. `roles`
/// says what these files hold, such as parameters or gradients. `given` has the
/// directories from a stronger source (a flag). The path becomes a value of
/// --swap-dir, which also accepts a list such as `/a,parameters=/b`. A path
/// that --swap-dir would not read as one directory is an error if an offload
/// file needs the path. Otherwise such a path is replaced by "".
static std::string directoryFor(const std::vector<plan::FileRole> &roles,
                                const io::JsonValue &path,
                                const io::OffloadDirectories &given,
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
  auto read = io::OffloadDirectories::parse(path.asString());
  if (read && read->isOne())
    return read->all;
  if (counts)
    path.fail("H0105",
              path.path() + " = \"" + path.asString() +
                  "\" cannot be told from directories of roles",
              "give a path without commas, with ./ before a name with a =");
  return "";
}

/// If ds_config.json has one `nvme_path`, it is for all offload files. If it
/// has two, the path in `offload_param` is only for parameters, and the other
/// one for all other files. If a flag gives directories, paths are used only
/// for the files to which the flag gives none.
void config::mergeSwapPaths(const io::JsonValue &root, Merger &merger) {
  using plan::FileRole;
  const io::JsonValue *first = swapPathAt(root, "offload_optimizer", merger);
  const io::JsonValue *second = swapPathAt(root, "offload_param", merger);
  auto given = io::OffloadDirectories::parse(merger.result.values.swapDir);
  if ((!first && !second) || !given)
    return; // The source of the directories reports the error.
  io::OffloadDirectories paths;
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

/// DeepSpeed's CPU optimizer updates the states that are in host memory: all of
/// them, or the fraction that `ratio` gives. The ratio also applies if a flag,
/// and not ds_config.json, puts states in host memory.
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
