//===- DsReports.cpp - Sections of ds_config.json: reports ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the sections of ds_config.json that set the defaults of train's flags
// for profiles, reports and logs.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include <filesystem>

using namespace heddle;
using namespace heddle::config;

/// Returns the section `name` if its key `enabled` is true. Otherwise marks its
/// keys as without meaning, and returns null.
static const io::JsonValue *enabledSection(const io::JsonValue &root,
                                           const char *name, Merger &merger) {
  const io::JsonValue *section = root.find(name);
  if (!section || !section->isObject())
    return nullptr;
  const io::JsonValue *enabled = section->find("enabled");
  if (enabled && enabled->asBool())
    return section;
  for (const io::JsonMember &member : section->members())
    merger.mark(member.value.path(), "no meaning here", "off");
  return nullptr;
}

void config::mergeFlopsProfiler(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = enabledSection(root, "flops_profiler", merger);
  if (!section)
    return;
  for (auto [key, name] : {std::pair("profile_step", "profile_step"),
                           std::pair("profile_depth", "module_depth"),
                           std::pair("profile_top", "top_modules"),
                           std::pair("profile_file", "output_file")})
    if (const io::JsonValue *value = section->findNonNull(name))
      readKey(settingOf(key), *value, merger);
  if (!section->find("profile_step"))
    merger.give("profile_step", int64_t(1),
                fileOrigin(*section->find("enabled")));
}

/// Gives the setting `key` the path output_path/job_name/`file`, with
/// DeepSpeed's defaults, if the section of a monitor is enabled.
static void mergeMonitor(const io::JsonValue &root, const char *name,
                         const char *key, const char *file, Merger &merger) {
  const io::JsonValue *section = enabledSection(root, name, merger);
  if (!section)
    return;
  auto textOf = [&](const char *member, const char *fallback) {
    const io::JsonValue *value = section->findNonNull(member);
    return value ? value->asString() : std::string(fallback);
  };
  std::filesystem::path path = textOf("output_path", "");
  path /= textOf("job_name", "DeepSpeedJobName");
  if (*file)
    path /= file;
  merger.give(key, path.string(), fileOrigin(*section->find("enabled")));
}

void config::mergeTensorBoard(const io::JsonValue &root, Merger &merger) {
  mergeMonitor(root, "tensorboard", "log_tensorboard", "", merger);
}

void config::mergeCsvMonitor(const io::JsonValue &root, Merger &merger) {
  mergeMonitor(root, "csv_monitor", "log_csv", "log.csv", merger);
}

void config::mergeCheckpointProfile(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = root.find("activation_checkpointing");
  if (!section || !section->isObject())
    return;
  const io::JsonValue *value = section->find("profile");
  if (value && value->asBool())
    readKey(settingOf("wall_clock_breakdown"), *value, merger);
}
