//===- WeightCache.cpp - Cache of converted weights -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the directory and the key of cached weights, and loads and stores
// them.
//
//===----------------------------------------------------------------------===//

#include "WeightCache.h"
#include "Warnings.h"
#include "heddle/PlanFormat/Serving.h"
#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/runtime/comm/Socket.h"
#include "heddle/runtime/io/CacheDirectory.h"

#include <algorithm>
#include <chrono>
#include <elf.h>
#include <filesystem>
#include <sys/stat.h>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::rt;
using plan::State;
using plan::StateRole;

/// Limit of the bytes of all cached weights in a directory. The limit is lower
/// if a quarter of the disk's space is less.
static constexpr int64_t mostBytes = int64_t(64) << 30;

/// Weights of fewer bytes are not cached, since they are converted quickly.
static constexpr int64_t leastBytes = int64_t(16) << 20;

extern "C" const char __executable_start, etext;

/// Hashes the runtime's code, which converts weights. The ELF header is left
/// out, since it changes with the size of the plan.
static std::string hashOfCode() {
  const char *begin = &__executable_start + sizeof(Elf64_Ehdr);
  return io::hexDigest(io::hashBytes(begin, &etext - begin));
}

bool heddle::rt::isOfWeights(const State &state) {
  return state.role == StateRole::Parameter || state.role == StateRole::Derived;
}

/// Returns the memory ranges of the states that are computed from weights.
/// Adjacent states form one range, which includes the bytes between them. The
/// result is empty if the binary trains.
static std::vector<ImagePart> partsOf(Job &job) {
  const plan::Plan &plan = job.plan();
  if (!isForServing(plan))
    return {};
  std::vector<size_t> order(plan.states.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return plan.states[a].offset < plan.states[b].offset;
  });
  std::vector<ImagePart> parts;
  bool isNext = false;
  for (size_t index : order) {
    const State &state = plan.states[index];
    const Value &value = job.session().state(index);
    if (value.numBytes() == 0)
      continue;
    if (!isOfWeights(state)) {
      isNext = false;
      continue;
    }
    if (state.memory != MemoryKind::Device)
      return {};
    // The offset matters only for memory in which a file can be mapped. On a
    // GPU it depends on the size of the cache of keys and values, which is
    // chosen at each start.
    bool isSeen = job.device().map(value.address);
    if (!isNext)
      parts.push_back({value.address, isSeen ? state.offset : 0, 0});
    parts.back().bytes = value.address + value.numBytes() - parts.back().begin;
    isNext = true;
  }
  return parts;
}

/// Returns size, inode and times of a file as text, which changes whenever the
/// file may have been modified.
static std::string describe(const std::string &file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0)
    return file;
  std::string text;
  for (int64_t number :
       {int64_t(status.st_size), int64_t(status.st_ino),
        int64_t(status.st_mtim.tv_sec), int64_t(status.st_mtim.tv_nsec),
        int64_t(status.st_ctim.tv_sec), int64_t(status.st_ctim.tv_nsec)})
    text += std::to_string(number) + " ";
  return text;
}

static std::string keyOf(Job &job, const io::WeightSet *weights) {
  const plan::Plan &plan = job.plan();
  // Each rank has the same weights as one rank of every other replica, and
  // these ranks share a cache file. So the key has the number of the first of
  // them instead of this rank's number.
  int64_t first =
      plan.mesh.member(job.ranks().rank(), plan::groupAxes(plan), 0);
  std::string text =
      plan.hash + " " + hashOfCode() + " " + std::to_string(first) + "\n";
  if (weights) {
    text += weights->headerHash() + "\n";
    for (const std::string &file : weights->files())
      text += describe(file) + "\n";
  }
  return plan::hashBytes(text.data(), text.size());
}

static std::string placeBeside(const io::WeightSet *weights) {
  if (!weights)
    return "";
  return fs::path(weights->files().front()).parent_path() / ".heddle" /
         "weights";
}

/// Whether all users may read the weight files, so that all may also read a
/// cache file next to them.
static bool canEverybodyRead(const io::WeightSet *weights) {
  constexpr mode_t readable = S_IRUSR | S_IRGRP | S_IROTH;
  return weights &&
         std::all_of(weights->files().begin(), weights->files().end(),
                     [](const auto &file) {
                       struct stat status = {};
                       return ::stat(file.c_str(), &status) == 0 &&
                              (status.st_mode & readable) == readable;
                     });
}

/// Returns the directories for cached weights, best first. The directory beside
/// the weights comes first, since all users of the model find the file there.
/// It is only used if the user asks for it, since it may belong to a package.
static std::vector<std::string> placesFor(const JobOptions &options,
                                          const std::string &besideWeights) {
  if (!options.weightCacheDirectory.empty())
    return {options.weightCacheDirectory};
  const std::string &asked = options.weightsCache;
  if (asked == "off")
    return {};
  if (!asked.empty() && asked != "beside")
    return {asked};
  std::vector<std::string> places;
  if (asked == "beside" && !besideWeights.empty())
    places.push_back(besideWeights);
  if (std::string cache = io::cacheDirectory(); !cache.empty())
    places.push_back(fs::path(cache) / "weights");
  return places;
}

WeightCache::WeightCache(Job &job, const JobOptions &options,
                         const io::WeightSet *weights)
    : job(job), besideWeights(placeBeside(weights)),
      places(placesFor(options, besideWeights)),
      isPublic(canEverybodyRead(weights)) {
  const std::string &asked = options.weightCache;
  bool isWay = asked == "map" || asked == "read";
  bool isPlace =
      !options.weightCacheDirectory.empty() ||
      (!options.weightsCache.empty() && options.weightsCache != "off");
  if ((isWay || isPlace) && !isForServing(job.plan()))
    fail("H0167",
         "--weight-cache, --weights-cache and --weight-cache-dir are for "
         "binaries that do not train: this one changes its weights, and keeps "
         "none",
         "leave them out, or compile with --mode serve");
  if (isWay && options.weightsCache == "off")
    fail("H0158",
         "--weights-cache off keeps no weights, which --weight-cache " + asked +
             " takes from where they are kept",
         "leave out one of the two");
  std::vector<ImagePart> parts = partsOf(job);
  int64_t bytes = 0;
  for (const ImagePart &part : parts)
    bytes += part.bytes;
  if (asked == "none" || places.empty() || parts.empty() ||
      (asked == "auto" && bytes < leastBytes))
    return;
  way = asked == "map"    ? LoadWay::Map
        : asked == "read" ? LoadWay::Read
                          : LoadWay::Auto;
  key = keyOf(job, weights);
  image.emplace(job.device(), job.threadPool(), parts, key);
}

bool WeightCache::load() {
  return image &&
         std::any_of(places.begin(), places.end(),
                     [&](const std::string &place) { return loadFrom(place); });
}

bool WeightCache::loadFrom(const std::string &directory) {
  auto begin = std::chrono::steady_clock::now();
  std::string path = fs::path(directory) / key;
  std::optional<LoadWay> found;
  try {
    found = image->load(path, way);
  } catch (const UserError &error) {
    warn(error.diagnostic);
  }
  if (!found)
    return false;
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (job.isFirst())
    fprintf(stderr, "%sweights: %s %s in %.2f s\n", job.prefix(),
            *found == LoadWay::Map ? "mapped from" : "read from", path.c_str(),
            seconds.count());
  return true;
}

bool WeightCache::isKeptByAnother() const {
  const std::string own =
      image ? hostName() + " " + key + " " + places.front() : "";
  std::vector<std::string> all = job.ranks().exchange(own);
  auto first = std::find(all.begin(), all.end(), own);
  return image && first - all.begin() < job.ranks().rank();
}

void WeightCache::store() {
  if (!image)
    return;
  std::optional<Diagnostic> failure;
  for (const std::string &place : places) {
    try {
      storeIn(place);
      return;
    } catch (const UserError &error) {
      failure = error.diagnostic;
    }
  }
  warn(*failure);
}

void WeightCache::storeIn(const std::string &directory) {
  io::makeDirectories(directory);
  int64_t limit = io::shareOfDisk(directory, mostBytes);
  if (image->bytes() > limit)
    fail("H0483",
         "the weights are not kept for the next start: they have " +
             std::to_string(image->bytes()) + " bytes, and " + directory +
             " may have " + std::to_string(limit),
         "free some space, name another directory with --weight-cache-dir, or "
         "pass --weight-cache none");
  io::makeRoom(directory, image->bytes(), limit);
  std::string path = fs::path(directory) / key;
  // Only a file beside the weights may be readable by all users. In another
  // directory the file is only readable by this user, because the model's own
  // directory may be private.
  image->write(path, isPublic && directory == besideWeights ? 0644 : 0600);
  if (job.isFirst())
    fprintf(stderr, "%sweights: kept in %s for the next start\n", job.prefix(),
            path.c_str());
}
