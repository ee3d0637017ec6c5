//===- ProgramNeeds.h - What a run of a program takes -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
#define HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H

#include "heddle/PlanFormat/Plan.h"

#include <algorithm>
#include <map>
#include <string>

namespace heddle::rt {

/// Layers whose tokens see as many positions of the cache.
struct CacheNeeds {
  int64_t window = 0; ///< Positions that a token sees at most; 0: all.
  double bytes = 0;   ///< For one position of one text.

  /// For a token that has so many positions up to its own.
  double bytesAt(int64_t positions) const {
    return bytes * double(window ? std::min(window, positions) : positions);
  }
};

/// What one run of a program launches, and what of the states it uses.
struct ProgramNeeds {
  std::vector<int64_t> launches; ///< Of each kernel of the plan.
  /// FLOPs of the kernels but those of attention over the cache, which are as
  /// many as there are positions.
  double flops = 0;
  /// Bytes of states but the cache that kernels use: each byte once, and of a
  /// state no more than its kernel moves.
  double stateBytes = 0;
  /// By windows; none where no cache is used.
  std::vector<CacheNeeds> caches;

  /// Bytes of the cache for a token that has so many positions up to its own.
  double cacheBytesAt(int64_t positions) const {
    double bytes = 0;
    for (const CacheNeeds &cache : caches)
      bytes += cache.bytesAt(positions);
    return bytes;
  }
};

/// Those of a program of the plan's selected stage.
ProgramNeeds needsOf(const plan::Plan &plan, const plan::Program &program);

/// What a run of each program takes, by its name, in FLOPs: those that it
/// computes, and those that could be computed while its states are read. Of all
/// stages, so that all ranks find the same.
std::map<std::string, double> costsOf(const plan::Plan &plan);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
