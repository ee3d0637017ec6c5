//===- WeightSet.cpp - The weights of a directory ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens a directory of weights. Handles shards with or without an index, files
// without Hugging Face's current names, and prefixes that PyTorch's wrappers
// add to the names of tensors.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

using namespace heddle;
using namespace heddle::io;
using namespace heddle::io::checkpoint;
namespace fs = std::filesystem;

/// Prefixes that torch.compile, FSDP and activation checkpointing insert into
/// the names of tensors. They may be anywhere in a name.
static constexpr const char *innerWrappers[] = {
    "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."};
/// Prefixes that DDP and PEFT put at the beginning of all names.
static constexpr const char *outerWrappers[] = {"module.", "base_model.model."};

/// Removes the prefixes of PyTorch's wrappers from a tensor's name, and adds
/// the removed prefixes to the set `met`.
static std::string withoutWrappers(std::string name,
                                   std::set<std::string> &met) {
  auto isMet = [&](const char *wrapper, size_t at) {
    met.insert(wrapper);
    name.erase(at, std::string(wrapper).size());
    return true;
  };
  for (bool isChanged = true; isChanged;) {
    isChanged = false;
    for (const char *wrapper : innerWrappers)
      if (size_t at = name.find(wrapper);
          at != std::string::npos && (at == 0 || name[at - 1] == '.'))
        isChanged = isMet(wrapper, at);
    for (const char *wrapper : outerWrappers)
      if (name.rfind(wrapper, 0) == 0)
        isChanged = isMet(wrapper, 0);
  }
  return name;
}

const TensorInfo *WeightSet::find(const std::string &name) const {
  auto findExactly = [&](const std::string &wanted) -> const TensorInfo * {
    auto it =
        std::lower_bound(all.begin(), all.end(), wanted,
                         [](const TensorInfo &info, const std::string &key) {
                           return info.name < key;
                         });
    return it != all.end() && it->name == wanted ? &*it : nullptr;
  };
  const TensorInfo *found = findExactly(name);
  if (found || wrapperNames.empty())
    return found;
  std::set<std::string> ignored;
  return findExactly(withoutWrappers(name, ignored));
}

const TensorInfo &WeightSet::at(const std::string &name) const {
  if (const TensorInfo *info = find(name))
    return *info;
  std::vector<std::string> names;
  for (const TensorInfo &info : all)
    names.push_back(info.name);
  std::string near = closestMatch(name, names);
  fail("H0335", "the tensor \"" + name + "\" is missing",
       near.empty() ? "name weights that hold it"
                    : "the nearest name there is \"" + near + "\"",
       {path, 0, 0});
}

void WeightSet::replace(const WeightSet &others) {
  for (TensorInfo &info : all)
    if (const TensorInfo *other = others.find(info.name))
      info = *other;
}

void WeightSet::replace(const TensorInfo &info) {
  for (TensorInfo &old : all)
    if (old.name == info.name)
      old = info;
}

const uint8_t *WeightSet::data(const TensorInfo &info) const {
  std::shared_ptr<const MappedFile> &file = mapped[info.file];
  if (!file)
    file = MappedFile::open(info.file, "H0310");
  if (info.offset + info.bytes > file->size())
    fail("H0326", "the file became shorter while it was in use",
         "restore it, and start again", {info.file, 0, 0});
  return file->data() + info.offset;
}

void WeightSet::forget(const TensorInfo &info, int64_t offset,
                       int64_t bytes) const {
  bool isComputed = info.coded || info.extension;
  auto found = isComputed ? mapped.end() : mapped.find(info.file);
  if (found != mapped.end())
    found->second->forget(info.offset + offset, bytes);
}

void WeightSet::requireConvertible(const TensorInfo &info,
                                   const std::string &dtype) {
  if (!convertElements(nullptr, info.dtype, nullptr, dtype, 0))
    fail("H0336",
         "tensor \"" + info.name + "\" has dtype " + info.dtype +
             ", which cannot be read as " + dtype,
         "save the weights as F32, BF16 or F16", {info.file, 0, 0});
}

void WeightSet::read(const TensorInfo &info, const std::string &dtype,
                     void *destination) const {
  requireConvertible(info, dtype);
  convertElements(data(info), info.dtype, destination, dtype,
                  info.numElements());
  forget(info, 0, info.bytes);
}

/// Combines the hashes of all headers, sorted, so that the result does not
/// depend on the files' names or order.
static std::string combineHashes(std::vector<uint64_t> hashes) {
  std::sort(hashes.begin(), hashes.end());
  return hexDigest(hashBytes(hashes.data(), hashes.size() * sizeof(uint64_t)));
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

namespace heddle::io {

/// Fills a WeightSet from one file, or from an index and its shards.
class WeightSetReader {
public:
  explicit WeightSetReader(const std::string &path) { set.path = path; }
  WeightSet readFile();
  WeightSet readIndex(const std::string &indexPath);
  /// Reads the files `names` of a directory that has no index file.
  WeightSet readShards(const std::string &directory,
                       const std::set<std::string> &names);
  /// Removes the prefixes of PyTorch's wrappers from all tensors' names, unless
  /// two names would become equal.
  static void unwrap(WeightSet &set);

private:
  WeightSet readAllShards(const std::string &directory);
  void readEntries(const JsonValue &weightMap, const std::string &directory);
  void addShard(SafetensorsHeader header, const std::string &name);
  void checkEntries();

  WeightSet set;
  /// Maps each tensor's name to the name of its shard, as the index file says.
  std::map<std::string, const JsonValue *> entries;
  std::set<std::string> shards;
  std::map<std::string, TensorInfo> tensors;
};

} // namespace heddle::io

WeightSet WeightSetReader::readFile() {
  SafetensorsHeader header = readSafetensorsHeader(set.path);
  set.hash = combineHashes({header.hash});
  set.all = std::move(header.tensors);
  set.meta = std::move(header.metadata);
  set.fileNames = {set.path};
  std::sort(
      set.all.begin(), set.all.end(),
      [](const TensorInfo &a, const TensorInfo &b) { return a.name < b.name; });
  return std::move(set);
}

void WeightSetReader::readEntries(const JsonValue &weightMap,
                                  const std::string &directory) {
  for (const JsonMember &member : weightMap.members()) {
    const std::string &name = member.value.asString();
    if (name.empty() || name.find('/') != std::string::npos)
      member.value.fail("H0333",
                        "\"" + name +
                            "\" is not the name of a file beside the index",
                        "name a file in the same directory");
    entries[member.key] = &member.value;
    if (!shards.insert(name).second)
      continue;
    if (!pathExists(directory + "/" + name))
      member.value.fail("H0333", "the file \"" + name + "\" is missing",
                        "download it into " + directory);
  }
  if (shards.empty())
    weightMap.fail("H0331", "the index names no files",
                   "download the index again");
}

/// Adds the tensors of a shard, except those that the index assigns to another
/// shard.
void WeightSetReader::addShard(SafetensorsHeader header,
                               const std::string &name) {
  for (TensorInfo &info : header.tensors) {
    auto entry = entries.find(info.name);
    if (entry != entries.end() && entry->second->asString() != name)
      continue;
    std::string key = info.name;
    auto [it, isNew] = tensors.emplace(key, std::move(info));
    if (!isNew)
      fail("H0337",
           "the tensor \"" + key + "\" is also in " + name +
               ", and no index says which counts",
           "add it to the weight_map of the index", {it->second.file, 0, 0});
  }
}

void WeightSetReader::checkEntries() {
  for (const auto &[name, value] : entries)
    if (tensors.count(name) == 0)
      value->fail("H0334",
                  "the tensor \"" + name + "\" is not in \"" +
                      value->asString() + "\"",
                  "download the index and its files again");
}

WeightSet WeightSetReader::readIndex(const std::string &indexPath) {
  JsonValue root = parseJsonFile(indexPath, modelJsonCodes);
  std::string directory = fs::path(indexPath).parent_path().string();
  readEntries(root.at("weight_map"), directory);
  return readAllShards(directory);
}

WeightSet WeightSetReader::readShards(const std::string &directory,
                                      const std::set<std::string> &names) {
  shards = names;
  return readAllShards(directory);
}

WeightSet WeightSetReader::readAllShards(const std::string &directory) {
  std::vector<uint64_t> hashes;
  for (const std::string &name : shards) {
    std::string file = (fs::path(directory) / name).string();
    SafetensorsHeader header = readSafetensorsHeader(file);
    if (hashes.empty())
      set.meta = header.metadata;
    hashes.push_back(header.hash);
    set.fileNames.push_back(file);
    addShard(std::move(header), name);
  }
  checkEntries();
  set.hash = combineHashes(std::move(hashes));
  for (auto &[name, info] : tensors)
    set.all.push_back(std::move(info));
  return std::move(set);
}

void WeightSetReader::unwrap(WeightSet &set) {
  std::set<std::string> met, names;
  std::vector<TensorInfo> all = set.all;
  for (TensorInfo &info : all) {
    info.name = withoutWrappers(info.name, met);
    if (!names.insert(info.name).second)
      return;
  }
  if (met.empty())
    return;
  std::sort(
      all.begin(), all.end(),
      [](const TensorInfo &a, const TensorInfo &b) { return a.name < b.name; });
  set.all = std::move(all);
  for (const std::string &wrapper : met)
    set.wrapperNames += (set.wrapperNames.empty() ? "" : ", ") + wrapper;
}

WeightSet io::openSafetensors(const std::string &path) {
  return WeightSetReader(path).readFile();
}

//===----------------------------------------------------------------------===//
// Directories
//===----------------------------------------------------------------------===//

static bool isPickle(const std::string &name) {
  for (const char *end : {".bin", ".pt", ".pth", ".ckpt", ".pkl"})
    if (endsWith(name, end))
      return true;
  return false;
}

[[noreturn]] static void refusePickle(const std::string &path) {
  fail("H0332",
       "these weights are a pickle, which can run code when it is loaded",
       "convert it once, in Python: AutoModelForCausalLM.from_pretrained(DIR)"
       ".save_pretrained(NEW_DIR, safe_serialization=True)",
       {path, 0, 0});
}

void io::refuseAdapter(const std::string &path) {
  if (pathExists(path + "/adapter_config.json"))
    fail("H0331", path + " has an adapter, not a model",
         "merge it into its model, in Python: "
         "model.merge_and_unload().save_pretrained(NEW_DIR)");
}

/// Throws an error that says what the directory contains instead of supported
/// weights.
[[noreturn]] static void failNoWeights(const std::string &path) {
  refuseAdapter(path);
  std::string pickle, others;
  for (const std::string &name : listDirectory(path, "H0330")) {
    if (endsWith(name, ".safetensors"))
      others += (others.empty() ? "" : ", ") + name;
    else if (isPickle(name))
      pickle = path + "/" + name;
  }
  if (!others.empty())
    fail("H0331",
         "neither " + std::string(modelFile) + " nor " + indexFile + " is in " +
             path +
             ", and it is not clear which of these are the weights: " + others,
         "leave one of them there, or download the index");
  if (!pickle.empty())
    refusePickle(pickle);
  fail("H0331", "no weights in " + path,
       std::string("put ") + modelFile + " there, or name another directory");
}

/// Groups the files of a directory by the prefix of their names before the
/// shard number, for example `model` of model-00001-of-00003. A file without a
/// shard number is grouped by its whole name.
static std::map<std::string, std::set<std::string>>
weightFilesOf(const std::vector<std::string> &names) {
  static const std::regex shard("(.*)-[0-9]+-of-([0-9]+)\\.safetensors");
  std::map<std::string, std::set<std::string>> files;
  for (const std::string &name : names) {
    std::smatch parts;
    // Skip files of adapters (LoRA): they do not hold a whole model.
    if (!endsWith(name, ".safetensors") || name.rfind("adapter_", 0) == 0)
      continue;
    bool isShard = std::regex_match(name, parts, shard);
    files[isShard ? parts[1].str() + "-of-" + parts[2].str() : name].insert(
        name);
  }
  return files;
}

/// Throws H0333 unless there are all N shards, whose names end with `-of-N`.
static void requireAllShards(const std::string &directory,
                             const std::string &stem,
                             const std::set<std::string> &names) {
  size_t at = stem.rfind("-of-");
  if (at == std::string::npos || endsWith(stem, ".safetensors"))
    return;
  const std::string count = stem.substr(at + 4);
  for (size_t i = 1; i <= std::stoul(count); ++i) {
    std::string number = std::to_string(i);
    number.insert(0, count.size() - std::min(count.size(), number.size()), '0');
    std::string name =
        stem.substr(0, at) + "-" + number + "-of-" + count + ".safetensors";
    if (names.count(name) == 0)
      fail("H0333", "the file \"" + name + "\" is missing",
           "download it into " + directory, {directory, 0, 0});
  }
}

/// Opens a directory without an index whose files do not have Hugging Face's
/// current names, such as gptq_model-4bit-128g.safetensors.
static WeightSet openOtherNames(const std::string &directory) {
  std::vector<std::string> names = listDirectory(directory, "H0330");
  std::string index;
  for (const std::string &name : names)
    if (endsWith(name, ".safetensors.index.json"))
      index = index.empty() ? name : "/";
  if (!index.empty() && index != "/")
    return WeightSetReader(directory).readIndex(directory + "/" + index);
  auto files = weightFilesOf(names);
  auto chosen = files.size() == 1 ? files.begin() : files.end();
  for (auto it = files.begin(); it != files.end(); ++it)
    if (it->first.rfind("model-of-", 0) == 0)
      chosen = it;
  if (chosen == files.end())
    failNoWeights(directory);
  requireAllShards(directory, chosen->first, chosen->second);
  return WeightSetReader(directory).readShards(directory, chosen->second);
}

/// As openWeights, without changing names.
static WeightSet openAsNamed(const std::string &path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    fail("H0330", path + " does not exist", "check the path to the weights");
  WeightSetReader reader(path);
  if (!fs::is_directory(status)) {
    if (isPickle(path))
      refusePickle(path);
    return endsWith(path, ".index.json") ? reader.readIndex(path)
                                         : reader.readFile();
  }
  std::string directory = resolveModel(path);
  if (pathExists(directory + "/" + modelFile))
    return openSafetensors(directory + "/" + modelFile);
  if (pathExists(directory + "/" + indexFile))
    return reader.readIndex(directory + "/" + indexFile);
  return openOtherNames(directory);
}

WeightSet io::openWeights(const std::string &path) {
  WeightSet set = openAsNamed(path);
  WeightSetReader::unwrap(set);
  return set;
}
