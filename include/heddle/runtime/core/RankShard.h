//===- RankShard.h - A rank's shard of a tensor -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes which elements of a tensor a rank stores. The code for weights,
// checkpoints, inputs and dumps uses this to convert between whole tensors and
// shards.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_RANKSHARD_H
#define HEDDLE_RUNTIME_CORE_RANKSHARD_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Elements that are consecutive both in the whole tensor and in a rank's
/// memory.
struct ElementRange {
  int64_t whole = 0; ///< Index of the first element in the whole tensor.
  int64_t local = 0; ///< Index of the first element in the rank's memory.
  int64_t count = 0;
};

/// The shard of a tensor that one rank stores. Padding is stored, but is no
/// part of the whole tensor.
class RankShard {
public:
  /// `shape` is as in plan::State. Throws H0385 when it contradicts the
  /// placement.
  RankShard(const plan::Placement &placement, const std::vector<int64_t> &shape,
            const plan::Mesh &mesh, int64_t rank);

  const std::vector<int64_t> &wholeShape() const { return whole; }
  /// The number of elements in the memory that the rank has for the tensor. If
  /// ZeRO splits the bucket that contains the tensor, this memory is the rank's
  /// range of the bucket. It may have elements of other tensors, which are
  /// counted too.
  int64_t localElements() const { return stored; }
  /// Several ranks may store the same elements of the tensor. Returns whether
  /// this rank is the first of these ranks.
  bool isFirstReplica() const { return first; }
  /// The ranges of all stored elements, sorted by their index in the whole
  /// tensor.
  std::vector<ElementRange> runs() const;

private:
  struct Dimension {
    /// The size of this dimension in the whole tensor (`whole`), and in the
    /// shard of this rank (`local`).
    int64_t whole = 0, local = 0;
    std::vector<ElementRange> runs; ///< Ranges of indices along this dimension.
  };
  void append(ElementRange run, std::vector<ElementRange> &runs) const;

  std::vector<int64_t> whole;
  std::vector<Dimension> dimensions;
  /// The range [begin, end) of elements that the rank's memory for the tensor
  /// holds, counted from the tensor's first element. If ZeRO splits the
  /// tensor's bucket, the memory is a range of the bucket. It may then begin
  /// before the tensor (`begin` is negative) and end after it.
  int64_t begin = 0, end = 0;
  int64_t stored = 0;
  bool first = true;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_RANKSHARD_H
