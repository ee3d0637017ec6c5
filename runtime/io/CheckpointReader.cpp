//===- CheckpointReader.cpp - Read checkpoints ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds, verifies, opens and describes checkpoints; see Checkpoint.h for their
// files.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "NewDirectory.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/VerifiedFiles.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
using namespace heddle::io::checkpoint;
namespace fs = std::filesystem;

/// Returns the checkpoint with the highest step; "" if there is none.
static std::string newestIn(const std::string &directory) {
  std::optional<int64_t> newest;
  for (const std::string &name : listDirectory(directory, "H0360"))
    if (std::optional<int64_t> step = stepOfName(name);
        step && isCheckpoint(directory + "/" + name))
      newest = std::max(newest.value_or(0), *step);
  return newest ? stepName(*newest) : "";
}

std::string io::resolveCheckpoint(const std::string &path) {
  if (isCheckpoint(path))
    return path;
  std::string latest = path + "/" + latestFile;
  std::error_code ignored;
  // If a run was killed after its first checkpoint and before it wrote
  // `latest`, take the newest checkpoint in the directory.
  if (!pathExists(latest) && fs::is_directory(path, ignored))
    if (std::string newest = newestIn(path); !newest.empty())
      return path + "/" + newest;
  if (!pathExists(latest))
    fail("H0360",
         pathExists(path) ? path + " is not a checkpoint"
                          : path + " does not exist",
         "name a directory that `train --save` has written, or one of its "
         "step-* directories");
  std::string name = readText(latest, "H0360");
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r'))
    name.pop_back();
  std::string target = path + "/" + name;
  if (name.find('/') == std::string::npos && isCheckpoint(target))
    return target;
  std::string newest = newestIn(path);
  fail("H0365", "`latest` names \"" + name + "\", which is not a checkpoint",
       newest.empty() ? "name another checkpoint"
                      : "name " + path + "/" + newest + " instead",
       {latest, 1, 1});
}

std::string io::resolveModel(const std::string &path) {
  if (path.empty())
    return path;
  for (const char *name : {configFile, modelFile, indexFile})
    if (pathExists(path + "/" + name))
      return path;
  return pathExists(path + "/" + latestFile) ? resolveCheckpoint(path) : path;
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

/// Returns the files that the manifest names, without checking them.
static std::vector<CheckpointPart> readManifest(const std::string &directory) {
  JsonValue manifest =
      parseJsonFile(directory + "/" + manifestFile, modelJsonCodes);
  const JsonValue &version = manifest.at("version");
  if (version.asInteger() != manifestVersion &&
      version.asInteger() != manifestVersionWithMasters)
    version.fail("H0364",
                 "this checkpoint has version " +
                     std::to_string(version.asInteger()) +
                     "; this program reads the versions " +
                     std::to_string(manifestVersion) + " and " +
                     std::to_string(manifestVersionWithMasters),
                 "use the program that wrote it, or a newer one");
  std::vector<CheckpointPart> parts;
  for (const JsonValue &file : manifest.at("files").elements()) {
    const JsonValue &name = file.at("name");
    if (name.asString().find("..") != std::string::npos ||
        name.asString().rfind('/', 0) == 0)
      name.fail("H0361", "the manifest names a file outside the checkpoint",
                "restore the checkpoint from a copy");
    parts.push_back({name.asString(), file.at("bytes").asInteger(),
                     file.at("xxh3").asString(), ""});
  }
  return parts;
}

/// Whether to compute a file's checksum again if this version of it was
/// verified before.
enum class ReadAgain { Yes, No };

/// Checks a file of a checkpoint. Returns the error to report; the error's code
/// is empty if the file is whole.
static Diagnostic inspectPart(const std::string &directory,
                              const CheckpointPart &part,
                              ReadAgain again = ReadAgain::Yes) {
  std::string path = directory + "/" + part.file;
  Diagnostic problem;
  problem.location = {path, 0, 0};
  problem.help = "resume from another checkpoint";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    problem.code = "H0361";
    problem.message = part.file + " is missing from the checkpoint";
    return problem;
  }
  FileVersion version(path);
  if (int64_t bytes = int64_t(fs::file_size(path, error));
      bytes != part.bytes) {
    problem.code = "H0362";
    problem.message = part.file + " has " + std::to_string(bytes) +
                      " bytes; the manifest says " + std::to_string(part.bytes);
    return problem;
  }
  if (again == ReadAgain::No && version.isVerified(part.digest))
    return problem;
  FileDigest file = digestFile(path, "H0361");
  if (file.digest == part.digest) {
    version.remember(part.digest);
  } else {
    problem.code = "H0363";
    problem.message = part.file + " is damaged: its checksum is " +
                      file.digest + "; the manifest says " + part.digest;
  }
  return problem;
}

std::vector<CheckpointPart> io::verifyCheckpoint(const std::string &path) {
  std::string directory = resolveCheckpoint(path);
  std::vector<CheckpointPart> parts = readManifest(directory);
  for (CheckpointPart &part : parts)
    part.problem = inspectPart(directory, part).message;
  return parts;
}

/// Throws for the first damaged file among those that `isRead` selects. Each
/// rank checks some of them.
static void requireWhole(
    const std::string &directory, Peers &peers,
    bool (*isRead)(const std::string &) = [](const std::string &) {
      return true;
    }) {
  peers.together([&] {
    std::vector<CheckpointPart> parts = readManifest(directory);
    for (size_t i = peers.rank(); i < parts.size(); i += peers.size()) {
      if (!isRead(parts[i].file))
        continue;
      Diagnostic problem = inspectPart(directory, parts[i]);
      if (!problem.code.empty())
        throw UserError(problem);
    }
  });
}

/// Returns the directory of the model that `path` names: the parent directory
/// if `path` is a file of weights, otherwise what `resolveModel` returns.
static std::string directoryOfModel(const std::string &path) {
  std::error_code error;
  return fs::is_regular_file(path, error)
             ? fs::path(path).parent_path().string()
             : resolveModel(path);
}

void io::requireConvertible(const std::string &path) {
  std::string directory = directoryOfModel(path);
  Peers alone;
  if (!path.empty() && isCheckpoint(directory))
    requireWhole(directory, alone,
                 [](const std::string &name) { return name != optimizerFile; });
}

/// Whether a file of this name in a model directory is a weight file, or the
/// index that names the weight file of each tensor.
static bool isOfModel(const std::string &name) {
  return name.find('/') == std::string::npos &&
         (fs::path(name).extension() == ".safetensors" || name == indexFile);
}

void io::requireWholeModel(const std::string &path, Peers &peers) {
  peers.together([&] {
    std::error_code error;
    bool isFile = fs::is_regular_file(path, error);
    std::string directory = directoryOfModel(path);
    if (path.empty() || !isCheckpoint(directory))
      return;
    std::vector<CheckpointPart> parts = readManifest(directory);
    for (size_t i = peers.rank(); i < parts.size(); i += peers.size()) {
      const std::string &name = parts[i].file;
      if (isFile ? name != fs::path(path).filename() : !isOfModel(name))
        continue;
      Diagnostic problem = inspectPart(directory, parts[i], ReadAgain::No);
      if (problem.code.empty())
        continue;
      problem.help = "name another checkpoint, or restore this file from a "
                     "copy; if it was changed on purpose, remove " +
                     directory + "/" + manifestFile +
                     ", and name the directory with --weights";
      throw UserError(problem);
    }
  });
}

/// Reads a seed. It is a string, because readers that keep numbers as doubles
/// would round it.
static uint64_t readSeed(const JsonValue &seed) {
  const std::string &text = seed.asString();
  bool isNumber = !text.empty() && text.size() <= 20 &&
                  text.find_first_not_of("0123456789") == std::string::npos;
  errno = 0;
  uint64_t value = isNumber ? std::strtoull(text.c_str(), nullptr, 10) : 0;
  if (!isNumber || errno == ERANGE)
    seed.failType("a string of digits, below 2^64");
  return value;
}

/// The largest count, such as of steps or rows, that is accepted in a
/// checkpoint: so small that no sum of two counts overflows.
static constexpr int64_t mostCount = int64_t(1) << 53;

static int64_t readCount(const JsonValue &object, const char *key,
                         int64_t most = mostCount) {
  const JsonValue &value = object.at(key);
  if (value.asInteger() < 0 || value.asInteger() > most)
    value.failType("a number from 0 to " + std::to_string(most));
  return value.asInteger();
}

static DataState readData(const JsonValue &json) {
  DataState data;
  data.rows = readCount(json, "rows");
  data.tokens = readCount(json, "tokens");
  data.batch = readCount(json, "batch");
  data.seq = readCount(json, "seq");
  if (const JsonValue *seed = json.find("shuffle"))
    data.shuffle = readSeed(*seed);
  for (const JsonValue &value : json.at("sources").elements()) {
    DataSourceState source;
    source.file = value.at("file").asString();
    source.digest = value.at("xxh3").asString();
    source.tokens = readCount(value, "tokens");
    source.weight = value.at("weight").asNumber();
    source.taken = readCount(value, "taken");
    source.pass = readCount(value, "pass");
    source.origin = readCount(value, "origin");
    source.row = readCount(value, "row");
    if (source.row > mostCount / std::max<int64_t>(data.seq, 1))
      value.at("row").failType("within the file");
    source.passRows = readCount(value, "pass_rows");
    data.sources.push_back(std::move(source));
  }
  return data;
}

static BestValidation readBest(const JsonValue &json) {
  BestValidation best;
  best.loss = json.at("loss").asNumber();
  best.step = readCount(json, "step");
  best.worse = readCount(json, "worse");
  return best;
}

static std::map<std::string, double> readNumbers(const JsonValue &json) {
  std::map<std::string, double> numbers;
  for (const JsonMember &member : json.members())
    numbers[member.key] = member.value.asNumber();
  return numbers;
}

static SavedStep readSaved(const JsonValue &json) {
  SavedStep saved{json.at("name").asString(), json.at("xxh3").asString()};
  if (!stepOfName(saved.name))
    json.at("name").failType("the name of a checkpoint, as step-000200");
  return saved;
}

static std::vector<SavedStep> readSavedSteps(const JsonValue &json) {
  std::vector<SavedStep> steps;
  if (const JsonValue *saved = json.find("saved"))
    for (const JsonValue &step : saved->elements())
      steps.push_back(readSaved(step));
  return steps;
}

std::vector<SavedStep> checkpoint::savedBefore(const std::string &path) {
  return readSavedSteps(parseJsonFile(path + "/" + stateFile, modelJsonCodes));
}

/// Reads how many updates had been made at the end of the last steps. Older
/// versions wrote only how many steps were skipped in all, or not even that.
static plan::UpdateCounts readUpdates(const JsonValue &json, int64_t step) {
  std::vector<int64_t> last;
  if (const JsonValue *counts = json.find("updates"))
    for (const JsonValue &count : counts->elements()) {
      int64_t updates = count.asInteger();
      bool isPossible =
          last.empty() ? updates >= 0 && updates <= step
                       : updates <= last.back() && updates >= last.back() - 1;
      if (!isPossible)
        count.failType("a possible number of updates");
      last.push_back(updates);
    }
  else if (json.find("skipped"))
    last.push_back(step - readCount(json, "skipped", step));
  return plan::UpdateCounts(step, last);
}

static CheckpointState readState(const std::string &directory) {
  JsonValue json = parseJsonFile(directory + "/" + stateFile, modelJsonCodes);
  CheckpointState state;
  state.step = readCount(json, "step");
  state.updates = readUpdates(json, state.step);
  state.seed = readSeed(json.at("seed"));
  state.planHash = json.at("plan").asString();
  if (const JsonValue *optimizer = json.find("optimizer"))
    state.optimizer = optimizer->asString();
  if (const JsonValue *numbers = json.find("hyperparameters")) {
    state.told = readNumbers(numbers->at("told"));
    state.used = readNumbers(numbers->at("used"));
  }
  if (const JsonValue *best = json.find("best_validation"))
    state.best = readBest(*best);
  state.saved = readSavedSteps(json);
  if (const JsonValue *data = json.find("data")) {
    state.data = readData(*data);
    return state;
  }
  state.dataSteps = readCount(json, "data_position", int64_t(1) << 32);
  state.shuffled = json.at("extra").boolOr("shuffle", false);
  return state;
}

std::vector<LayoutFile> io::layoutsOfModel(const std::string &directory) {
  std::vector<LayoutFile> layouts;
  if (!isCheckpoint(directory))
    return layouts;
  JsonValue json = parseJsonFile(directory + "/" + stateFile, modelJsonCodes);
  const JsonValue *files = json.find("layouts");
  if (!files)
    return layouts;
  for (const JsonValue &file : files->elements()) {
    LayoutFile &layout = layouts.emplace_back();
    layout.file = file.at("file").asString();
    for (const JsonValue &layer : file.at("layers").elements())
      layout.layers.push_back(layer.asString());
  }
  return layouts;
}

std::optional<WeightSet> io::openMasters(const std::string &checkpoint) {
  std::string file = checkpoint + "/" + mastersFile;
  return pathExists(file) ? std::optional(openSafetensors(file)) : std::nullopt;
}

Checkpoint io::openCheckpoint(const std::string &path, Peers &peers) {
  Checkpoint checkpoint;
  peers.together([&] { checkpoint.path = resolveCheckpoint(path); });
  requireWhole(checkpoint.path, peers);
  peers.together([&] {
    checkpoint.state = readState(checkpoint.path);
    noteSaved(checkpoint.path, checkpoint.state.saved);
    checkpoint.model = openWeights(checkpoint.path);
    if (std::optional<WeightSet> masters = openMasters(checkpoint.path))
      checkpoint.model.replace(*masters);
    checkpoint.optimizer =
        openSafetensors(checkpoint.path + "/" + optimizerFile);
  });
  return checkpoint;
}

//===----------------------------------------------------------------------===//
// Descriptions for users
//===----------------------------------------------------------------------===//

/// Describes how far the run has read its training data.
static void describeData(const CheckpointState &state,
                         nlohmann::ordered_json &out) {
  if (!state.data) {
    out["data_steps"] = state.dataSteps;
    return;
  }
  for (const DataSourceState &source : state.data->sources)
    out["data"].push_back(
        {{"file", source.file},
         {"pass", source.pass},
         {"token", source.origin + source.row * state.data->seq},
         {"tokens", source.tokens},
         {"xxh3", source.digest}});
}

static nlohmann::ordered_json describe(const std::string &path) {
  nlohmann::ordered_json out;
  std::string directory = path;
  bool whole = isCheckpoint(path) || pathExists(path + "/" + latestFile);
  if (whole) {
    directory = resolveCheckpoint(path);
    CheckpointState state = readState(directory);
    out["path"] = directory;
    out["step"] = state.step;
    out["seed"] = state.seed;
    describeData(state, out);
    out["plan"] = state.planHash;
    if (!state.optimizer.empty())
      out["optimizer"] = state.optimizer;
    for (const LayoutFile &layout : layoutsOfModel(directory))
      out["layouts"].push_back(
          {{"file", layout.file}, {"layers", layout.layers}});
    for (const CheckpointPart &part : readManifest(directory))
      out["files"].push_back(
          {{"name", part.file}, {"bytes", part.bytes}, {"xxh3", part.digest}});
  } else {
    out["path"] = directory;
  }
  WeightSet weights = openWeights(directory);
  int64_t elements = 0, bytes = 0;
  out["header_hash"] = weights.headerHash();
  out["tensors"] = nlohmann::ordered_json::array();
  for (const TensorInfo &info : weights.tensors()) {
    elements += info.numElements();
    bytes += info.bytes;
    out["tensors"].push_back({{"name", info.name},
                              {"dtype", info.dtype},
                              {"shape", info.shape},
                              {"bytes", info.bytes}});
  }
  out["elements"] = elements;
  out["bytes"] = bytes;
  return out;
}

std::string io::inspectCheckpoint(const std::string &path, bool json) {
  nlohmann::ordered_json all = describe(path);
  if (json)
    return all.dump() + "\n";
  std::ostringstream out;
  for (const char *key :
       {"path", "step", "seed", "data_steps", "plan", "header_hash"})
    if (all.contains(key))
      out << key << ": "
          << (all[key].is_string() ? all[key].get<std::string>()
                                   : all[key].dump())
          << "\n";
  if (all.contains("data"))
    for (const auto &source : all["data"])
      out << "data " << source["file"].get<std::string>() << ": pass "
          << source["pass"] << ", token " << source["token"] << " of "
          << source["tokens"] << "\n";
  if (all.contains("files"))
    for (const auto &file : all["files"])
      out << "file " << file["name"].get<std::string>() << ": " << file["bytes"]
          << " bytes, xxh3 " << file["xxh3"].get<std::string>() << "\n";
  if (all.contains("layouts"))
    for (const auto &layout : all["layouts"]) {
      std::string layers;
      for (const auto &layer : layout["layers"])
        layers += (layers.empty() ? "" : ", ") + layer.get<std::string>();
      out << "attention layout " << layout["file"].get<std::string>() << ": "
          << layers << "\n";
    }
  for (const auto &tensor : all["tensors"])
    out << "tensor " << tensor["name"].get<std::string>() << ": "
        << tensor["dtype"].get<std::string>() << " "
        << shapeToString(tensor["shape"].get<std::vector<int64_t>>()) << "\n";
  out << all["tensors"].size() << " tensors, " << all["elements"]
      << " elements, " << all["bytes"] << " bytes\n";
  return out.str();
}

void io::exportCheckpoint(const std::string &path, const std::string &output) {
  std::string directory = resolveCheckpoint(path);
  Peers alone;
  requireWhole(directory, alone);
  NewDirectory target(output);
  for (const CheckpointPart &part : readManifest(directory)) {
    if (part.file.rfind(std::string(ownFolder) + "/", 0) == 0)
      continue;
    std::shared_ptr<const MappedFile> file =
        MappedFile::open(directory + "/" + part.file, "H0361");
    OutputFile out(target.temporaryPath() + "/" + part.file);
    out.write(file->data(), file->size());
    out.commit();
  }
  target.commit();
}
