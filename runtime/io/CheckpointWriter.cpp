//===- CheckpointWriter.cpp - Write checkpoints -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes checkpoints. Rank 0 creates the directory and all small files; each
// rank writes the bytes of the tensors that it holds, and one rank reads each
// large file again for its checksum. The order makes a checkpoint complete or
// absent: files, manifest, the directory's name, `latest`, removal of older
// checkpoints. Each is synced to the disk before the next begins.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
using namespace heddle::io::checkpoint;
namespace fs = std::filesystem;

/// Removes what interrupted saves have left: directories, and temporary files
/// of `latest`.
static void removeLeftovers(const std::string &directory) {
  std::string latest = std::string(latestFile) + ".tmp-";
  sweepTemporaries(directory, [&](const std::string &name) {
    return startsWith(name, temporaryPrefix) || startsWith(name, latest);
  });
}

//===----------------------------------------------------------------------===//
// The files of a checkpoint
//===----------------------------------------------------------------------===//

namespace {

/// Writes files into a directory and records them for the manifest.
class Recorder {
public:
  explicit Recorder(std::string directory) : directory(std::move(directory)) {}

  void addText(const std::string &name, const std::string &text) {
    writeText(directory + "/" + name, text);
    record(name, text.size(), hexDigest(hashBytes(text.data(), text.size())));
  }
  void addCopy(const std::string &name, const std::string &source) {
    std::shared_ptr<const MappedFile> file = MappedFile::open(source, "H0301");
    OutputFile out(directory + "/" + name);
    out.write(file->data(), file->size());
    out.commit();
    record(name, out.size(), out.digest());
  }
  void record(const std::string &name, int64_t bytes,
              const std::string &digest) {
    files.push_back({{"name", name}, {"bytes", bytes}, {"xxh3", digest}});
  }
  void writeManifest(int64_t step, int version) const {
    nlohmann::ordered_json manifest;
    manifest["version"] = version;
    manifest["step"] = step;
    manifest["files"] = files;
    writeText(directory + "/" + manifestFile, manifest.dump(1) + "\n");
  }

private:
  std::string directory;
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
};

} // namespace

static nlohmann::ordered_json dataToJson(const DataState &data) {
  nlohmann::ordered_json json = {{"rows", data.rows},
                                 {"tokens", data.tokens},
                                 {"batch", data.batch},
                                 {"seq", data.seq},
                                 {"sources", nlohmann::ordered_json::array()}};
  if (data.shuffle)
    json["shuffle"] = std::to_string(*data.shuffle);
  for (const DataSourceState &source : data.sources)
    json["sources"].push_back({{"file", source.file},
                               {"xxh3", source.digest},
                               {"tokens", source.tokens},
                               {"weight", source.weight},
                               {"taken", source.taken},
                               {"pass", source.pass},
                               {"origin", source.origin},
                               {"row", source.row},
                               {"pass_rows", source.passRows}});
  return json;
}

static nlohmann::ordered_json stateToJson(const CheckpointContents &contents) {
  const CheckpointState &state = contents.state;
  nlohmann::ordered_json json;
  json["step"] = state.step;
  json["skipped"] = state.step - state.updates.updates();
  json["updates"] = state.updates.last();
  // Write the seed as a string: readers that keep numbers as doubles would
  // round it.
  json["seed"] = std::to_string(state.seed);
  if (state.data)
    json["data"] = dataToJson(*state.data);
  if (state.best)
    json["best_validation"] = {{"loss", state.best->loss},
                               {"step", state.best->step},
                               {"worse", state.best->worse}};
  for (const SavedStep &saved : state.saved)
    if (saved.name != stepName(state.step))
      json["saved"].push_back({{"name", saved.name}, {"xxh3", saved.manifest}});
  json["plan"] = state.planHash;
  json["optimizer"] = state.optimizer;
  json["hyperparameters"] = {{"told", state.told}, {"used", state.used}};
  for (const LayoutFile &layout : contents.layouts)
    json["layouts"].push_back(
        {{"file", layout.file}, {"layers", layout.layers}});
  return json;
}

static void writeTexts(const std::string &directory,
                       const CheckpointContents &contents, Recorder &recorder) {
  makeDirectories(directory + "/" + ownFolder);
  recorder.addText(configFile, contents.config.dump(2) + "\n");
  for (const std::string &source : contents.copies)
    if (pathExists(source))
      recorder.addCopy(fs::path(source).filename().string(), source);
  for (const LayoutToSave &layout : contents.layouts) {
    WrittenFile written = writeSafetensors(
        directory + "/" + layout.file,
        {{"layout",
          "U8",
          {layout.heads, layout.blocks, layout.blocks},
          layout.bits.data(),
          {}}},
        {{"format", "pt"}, {"block", std::to_string(layout.block)}});
    recorder.record(layout.file, written.bytes, written.digest);
  }
  recorder.addText(stateFile, stateToJson(contents).dump(1) + "\n");
}

/// Returns the names of the safetensors files of a checkpoint, and the tensors
/// of each file. The result is the same on all ranks.
static std::vector<std::pair<const char *, const std::vector<SharedTensor> *>>
tensorFiles(const CheckpointContents &contents) {
  std::vector<std::pair<const char *, const std::vector<SharedTensor> *>>
      files = {{modelFile, &contents.model},
               {optimizerFile, &contents.optimizer}};
  if (!contents.masters.empty())
    files.push_back({mastersFile, &contents.masters});
  return files;
}

/// Writes the safetensors files, each by all ranks together. Returns one line
/// of text for each file: name, size and digest.
static std::vector<std::string> writeTensors(const std::string &directory,
                                             const CheckpointContents &contents,
                                             Peers &peers) {
  const auto files = tensorFiles(contents);
  for (const auto &[name, tensors] : files)
    writeShared(directory + "/" + name, *tensors, peers);
  std::string mine;
  peers.together([&] {
    for (size_t i = peers.rank(); i < files.size(); i += peers.size()) {
      FileDigest file = digestFile(directory + "/" + files[i].first, "H0402");
      mine += std::string(files[i].first) + " " + std::to_string(file.bytes) +
              " " + file.digest + "\n";
    }
  });
  std::vector<std::string> all;
  for (const std::string &text : peers.exchange(mine)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      all.push_back(line);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Names of checkpoints
//===----------------------------------------------------------------------===//

/// Renames the complete directory. If another checkpoint has the name already,
/// the two directories are exchanged atomically, and the old checkpoint is
/// removed.
static void giveName(Temporary &temporary, const std::string &path) {
  if (!pathExists(path))
    return temporary.become(path);
  requireReplaceable(path);
  if (renameat2(AT_FDCWD, temporary.path().c_str(), AT_FDCWD, path.c_str(),
                RENAME_EXCHANGE) == 0)
    return;
  // The file system cannot exchange two names: rename the old checkpoint first.
  std::string old = temporary.path() + "-old";
  if (::rename(path.c_str(), old.c_str()) != 0)
    failToWrite(path, errno);
  temporary.become(path);
  removeTree(old.c_str());
}

static void recordTensors(std::vector<std::string> files, Recorder &recorder) {
  // Sort, so that the manifest does not depend on which rank checked a file.
  std::sort(files.begin(), files.end());
  for (const std::string &file : files) {
    std::istringstream words(file);
    std::string name, digest;
    int64_t bytes = 0;
    words >> name >> bytes >> digest;
    recorder.record(name, bytes, digest);
  }
}

std::unique_ptr<DirectoryLock> io::claimSaves(const std::string &directory) {
  makeDirectories(directory);
  auto lock = std::make_unique<DirectoryLock>(directory);
  removeLeftovers(directory);
  return lock;
}

std::string io::saveCheckpoint(const std::string &directory,
                               const CheckpointContents &contents, Peers &peers,
                               int64_t keepLast) {
  std::string name = stepName(contents.state.step);
  std::string path = directory + "/" + name;
  // Set on rank 0 only.
  std::unique_ptr<Temporary> temporary;
  std::unique_ptr<Recorder> recorder;
  std::string written;
  peers.together([&] {
    if (peers.rank() != 0)
      return;
    makeDirectories(directory);
    removeLeftovers(directory);
    temporary = std::make_unique<Temporary>(directory + "/" + temporaryPrefix +
                                                name + "-",
                                            Temporary::Kind::Directory, path);
    recorder = std::make_unique<Recorder>(temporary->path());
    writeTexts(temporary->path(), contents, *recorder);
    written = temporary->path();
  });
  std::vector<std::string> files =
      writeTensors(peers.exchange(written).front(), contents, peers);
  peers.together([&] {
    if (peers.rank() != 0)
      return;
    recordTensors(files, *recorder);
    recorder->writeManifest(contents.state.step,
                            contents.masters.empty()
                                ? manifestVersion
                                : manifestVersionWithMasters);
    syncDirectory(temporary->path());
    giveName(*temporary, path);
    syncDirectory(directory);
    writeText(directory + "/" + latestFile, name + "\n");
    temporary.reset();
    if (keepLast > 0)
      prune(directory, name, contents.state.saved, keepLast);
  });
  return path;
}
