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

/// Saves the states that a rank of a serving binary computes from weights in a
/// file, byte for byte as they are in memory. The file is in
/// io::cacheDirectory() by default, in the directory that --weights-cache
/// names, or with `--weights-cache beside` in .heddle/weights beside the
/// weights. The total size of a directory is limited. The file name is a hash
/// of everything that the states depend on: plan, rank, code of the runtime,
/// and the weights' headers, sizes and times.
class WeightCache {
public:
  /// `weights` are the source of the states; null if a seed generates them.
  WeightCache(Job &job, const JobOptions &options,
              const io::WeightSet *weights);

  /// Loads the states from the cache; returns false if they are not there.
  /// Warns if the file is damaged.
  bool load();
  /// Whether a lower rank stores the same states in the same file. Collective.
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
