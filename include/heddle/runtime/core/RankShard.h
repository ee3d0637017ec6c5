//===- RankShard.h - One rank's part of a tensor ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_RANKSHARD_H
#define HEDDLE_RUNTIME_CORE_RANKSHARD_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Elements that stand side by side both in the whole tensor and in a rank's
/// memory.
struct ElementRange {
  int64_t whole = 0; ///< The first one's index in the whole tensor.
  int64_t local = 0; ///< The same in the rank's memory.
  int64_t count = 0;
};

/// Where the elements that a rank stores stand in the whole tensor. Padding is
/// stored, but is no part of the whole.
class RankShard {
public:
  /// `shape` is that of the rank's part, before flat axes divide it. Throws
  /// H0385 when the placement does not give such a part.
  RankShard(const plan::Placement &placement, const std::vector<int64_t> &shape,
            const plan::Mesh &mesh, int64_t rank);

  const std::vector<int64_t> &wholeShape() const { return whole; }
  /// Elements of the rank's memory: with flat axes, its run of the flat tensor,
  /// of which this tensor is but a member.
  int64_t localElements() const { return stored; }
  /// Whether this rank, among those that store the same elements, is the first.
  bool isFirstReplica() const { return first; }
  /// All that is stored, by increasing index in the whole.
  std::vector<ElementRange> runs() const;

private:
  struct Dimension {
    int64_t whole = 0, local = 0;   ///< Extents.
    std::vector<ElementRange> runs; ///< Of indices along this dimension.
  };
  void append(ElementRange run, std::vector<ElementRange> &runs) const;

  std::vector<int64_t> whole;
  std::vector<Dimension> dimensions;
  /// The rank's place in the flat tensor, counted from this tensor's first
  /// element in it; without flat axes, all of the part.
  int64_t begin = 0, end = 0;
  int64_t stored = 0;
  bool first = true;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_RANKSHARD_H
