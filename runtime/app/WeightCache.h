//===- WeightCache.h - Weights kept from start to start ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WEIGHTCACHE_H
#define HEDDLE_RUNTIME_APP_WEIGHTCACHE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/MemoryImage.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::rt {

/// Whether values of a state are made of weights when these are loaded.
bool isOfWeights(const plan::State &state);

/// Keeps the states that a rank of a binary which serves makes of weights,
/// as its memory holds them, in a file: below io::cacheDirectory(), in the
/// directory that --weights-cache names, or, if it says `beside`, in
/// .heddle/weights beside the weights. All files of a directory together have a
/// limit. The file's name is a hash of all that they depend on: the plan, the
/// rank, the runtime's code, and the weights' headers, sizes and times.
class WeightCache {
public:
  /// `weights`: of which the states are made; null where a seed makes them.
  WeightCache(Job &job, const JobOptions &options,
              const io::WeightSet *weights);

  /// Whether the states have what was kept. Prints a warning where that is
  /// damaged.
  bool load();
  /// Whether a rank before this one is to keep the same states in the same
  /// file. Every rank calls it.
  bool isKeptByAnother() const;
  /// Keeps the states in the first place that can be; prints a warning if none
  /// can.
  void store();

private:
  bool loadFrom(const std::string &directory);
  void storeIn(const std::string &directory);

  Job &job;
  std::optional<MemoryImage> image; ///< None where nothing is kept.
  LoadWay way = LoadWay::Auto;
  std::string besideWeights;       ///< The directory beside the weights, or "".
  std::vector<std::string> places; ///< Directories, the best first.
  bool isPublic = false;           ///< Whether everybody may read the weights.
  std::string key;                 ///< The file's name.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WEIGHTCACHE_H
