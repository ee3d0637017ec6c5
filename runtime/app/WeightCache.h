//===- WeightCache.h - Cache of converted weights ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Caches a server's converted and quantized weights in files, so that the next
// start maps them instead of converting the weights again.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WEIGHTCACHE_H
#define HEDDLE_RUNTIME_APP_WEIGHTCACHE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/MemoryImage.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::rt {

/// Whether a state's values are computed from the weights while the weights are
/// loaded.
bool isOfWeights(const plan::State &state);

/// Caches the states that a rank of a serving binary computes from weights, in
/// a file with the same bytes as in memory. The directory is
/// io::cacheDirectory() by default; --weights-cache may name another one, or
/// choose .heddle/weights next to the weights with `beside`. The total size of
/// the files in it is limited. The file name is a hash of all that the states
/// depend on: plan, rank, code of the runtime, and headers, sizes and times of
/// the weight files.
class WeightCache {
public:
  /// `weights` are the source of the states; null if a seed generates them.
  WeightCache(Job &job, const JobOptions &options,
              const io::WeightSet *weights);

  /// Loads the states from the cache; returns false if they are not there.
  /// Warns if the file is damaged.
  bool load();
  /// Whether a rank with a lower number stores the same states in the same
  /// file, so that this rank need not store them. Collective.
  bool isKeptByAnother() const;
  /// Stores the states in the first directory where that succeeds; warns if
  /// none does.
  void store();

private:
  bool loadFrom(const std::string &directory);
  void storeIn(const std::string &directory);

  Job &job;
  std::optional<MemoryImage> image; ///< Empty if nothing is cached.
  LoadWay way = LoadWay::Auto;
  std::string besideWeights;       ///< The directory beside the weights, or "".
  std::vector<std::string> places; ///< Directories to try, best first.
  bool isPublic = false; ///< Whether the weights are readable by everybody.
  std::string key;       ///< Name of the file.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WEIGHTCACHE_H
