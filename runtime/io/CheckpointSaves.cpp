//===- CheckpointSaves.cpp - Which run owns a checkpoint --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides which checkpoints a run may replace or remove: only those that it, or
// a run that it continues, has written. Each checkpoint lists earlier ones with
// the digests of their manifests, which contain the digests of all files. So a
// run does not mistake a copy of another run's checkpoint, or a replaced one,
// for its own. The lists do not name the run, so that equal runs write equal
// bytes.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "heddle/runtime/io/Json.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace heddle;
using namespace heddle::io;
using namespace heddle::io::checkpoint;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Names of checkpoints
//===----------------------------------------------------------------------===//

bool checkpoint::isCheckpoint(const std::string &path) {
  return pathExists(path + "/" + manifestFile);
}

std::string checkpoint::stepName(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%06lld", stepPrefix,
                static_cast<long long>(step));
  return text;
}

std::optional<int64_t> checkpoint::stepOfName(const std::string &name) {
  size_t prefix = std::strlen(stepPrefix);
  constexpr size_t mostDigits = 18;
  std::string digits = name.size() > prefix ? name.substr(prefix) : "";
  if (name.compare(0, prefix, stepPrefix) != 0 || digits.empty() ||
      digits.size() > mostDigits ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  int64_t step = std::strtoll(digits.c_str(), nullptr, 10);
  return stepName(step) == name ? std::optional(step) : std::nullopt;
}

/// Returns the digest of a checkpoint's manifest; "" if there is none.
static std::string digestOf(const std::string &path) {
  return isCheckpoint(path)
             ? digestFile(path + "/" + manifestFile, "H0402").digest
             : "";
}

/// Whether `saved` lists the checkpoint at `path`, and the checkpoint has not
/// changed since it was listed.
static bool isAmong(const std::vector<SavedStep> &saved,
                    const std::string &path) {
  std::string name = fs::path(path).filename(), digest = digestOf(path);
  return std::any_of(saved.begin(), saved.end(), [&](const SavedStep &step) {
    return step.name == name && step.manifest == digest;
  });
}

//===----------------------------------------------------------------------===//
// Before a run saves
//===----------------------------------------------------------------------===//

/// Throws the error that a run cannot save into a directory because of
/// `problem`. `edit` is the first advice in the message, for example "move it".
[[noreturn]] static void refuse(const std::string &problem,
                                const std::string &edit) {
  fail("H0155", "--save: " + problem,
       edit + ", save into another directory, or pass --overwrite to replace "
              "`latest` and the steps that this run saves");
}

/// Returns the name in `latest`; "" if there is none.
static std::string latestOf(const std::string &directory) {
  std::string path = directory + "/" + latestFile, name;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored))
    name = readText(path, "H0360");
  return name.substr(0, name.find_first_of("\r\n"));
}

/// Returns the absolute path of a checkpoint's directory. If the directory is a
/// symbolic link, the link is not followed.
static fs::path entryPath(const std::string &path) {
  std::error_code ignored;
  fs::path whole = fs::absolute(path, ignored).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

namespace {

/// The checkpoint that a run continues.
struct Resumed {
  std::string path;
  int64_t step = 0;
};

} // namespace

static Resumed findResumed(const std::string &path) {
  Resumed resumed;
  resumed.path = resolveCheckpoint(path);
  resumed.step =
      parseJsonFile(resumed.path + "/" + manifestFile, modelJsonCodes)
          .at("step")
          .asInteger();
  return resumed;
}

/// Throws unless a run may save into a directory that already has checkpoints.
/// `newest` is the step of the newest one. The run must resume the newest
/// checkpoint or the one that `latest` names. It must not replace a checkpoint
/// of another run. `lastStep` is the run's last step.
static void requireContinued(const std::string &directory, int64_t newest,
                             const std::optional<Resumed> &resumed,
                             int64_t lastStep) {
  std::string upTo = directory + " has checkpoints up to " + stepName(newest);
  std::string edit = "pass --resume " + directory + " to go on from the latest";
  if (!resumed)
    refuse(upTo, edit);
  fs::path path = entryPath(resumed->path);
  std::error_code ignored;
  if (!fs::equivalent(path.parent_path(), directory, ignored))
    refuse(upTo + ", and this run goes on from " + resumed->path, edit);
  // If `latest` names an older checkpoint than `newest`, a run was killed after
  // writing a checkpoint and before updating `latest`.
  if (resumed->step < newest && path.filename() != latestOf(directory))
    refuse(upTo + ", and this run goes back to step " +
               std::to_string(resumed->step),
           edit);
  for (const std::string &name : listDirectory(directory, "H0402")) {
    std::string other = directory + "/" + name;
    int64_t step = stepOfName(name).value_or(0);
    if (step > resumed->step && step <= lastStep && isCheckpoint(other) &&
        !isAmong(savedBefore(other), path))
      refuse(other + " is of another run than " + resumed->path +
                 ", and this run may replace it",
             "move it");
  }
}

void io::requireOwnSaves(const std::string &directory, const SaveStart &start) {
  std::optional<Resumed> resumed;
  if (!start.resume.empty())
    resumed = findResumed(start.resume);
  int64_t begin = resumed ? resumed->step : 0;
  std::optional<int64_t> newest;
  for (const std::string &name : listDirectory(directory, "H0402")) {
    std::optional<int64_t> step = stepOfName(name);
    if (!step)
      continue;
    if (isCheckpoint(directory + "/" + name))
      newest = std::max(newest.value_or(0), *step);
    // Refuse a file that has the name of any later step, even one at which no
    // checkpoint is due: a signal makes the run save at the step where it
    // arrives.
    else if (*step > begin && *step <= start.lastStep)
      fail("H0155",
           "--save: " + directory + "/" + name +
               " is no checkpoint, and this run may save there",
           "move it, or save into another directory");
  }
  if (start.overwrites)
    return;
  if (newest)
    return requireContinued(directory, *newest, resumed, start.lastStep);
  if (pathExists(directory + "/" + latestFile))
    refuse(directory + "/latest names no checkpoint that is there", "move it");
}

void checkpoint::requireReplaceable(const std::string &path) {
  if (!isCheckpoint(path))
    fail("H0413", path + " is no checkpoint, and is not replaced",
         "move it, or save into another directory");
}

//===----------------------------------------------------------------------===//
// Checkpoints of a run
//===----------------------------------------------------------------------===//

void io::requireNoOthers(const std::string &directory,
                         const std::vector<SavedStep> &saved) {
  for (const std::string &name : listDirectory(directory, "H0402"))
    if (std::string path = directory + "/" + name;
        stepOfName(name) && isCheckpoint(path) && !isAmong(saved, path))
      fail("H0155",
           "--save: " + directory +
               " was moved or removed while this run saved "
               "there, and now has " +
               name + " of another run",
           "save into another directory");
}

void io::noteSaved(const std::string &path, std::vector<SavedStep> &saved) {
  fs::path entry = entryPath(path);
  std::string name = entry.filename();
  auto isGone = [&](const SavedStep &step) {
    return step.name == name || !isCheckpoint(entry.parent_path() / step.name);
  };
  saved.erase(std::remove_if(saved.begin(), saved.end(), isGone), saved.end());
  if (stepOfName(name))
    saved.push_back({name, digestOf(path)});
}

void checkpoint::prune(const std::string &directory, const std::string &newest,
                       const std::vector<SavedStep> &saved, int64_t keep) {
  std::vector<std::string> others;
  for (const SavedStep &step : saved)
    if (step.name != newest && isAmong(saved, directory + "/" + step.name))
      others.push_back(step.name);
  int64_t count = int64_t(others.size()) - (keep - 1);
  for (int64_t i = 0; i < count; ++i) {
    // Rename a checkpoint before its files are removed, so that no partial one
    // is found.
    std::string doomed =
        directory + "/" + temporaryPrefix + "removed-" + others[i];
    std::error_code ignored;
    fs::rename(directory + "/" + others[i], doomed, ignored);
    removeTree(doomed.c_str());
  }
}
