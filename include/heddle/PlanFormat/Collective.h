//===- Collective.h - Sizes and traffic of a collective ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler plans with and the runtime counts with: one formula each
// for the staging memory and for the bytes that a rank sends. The algorithms
// are in runtime/comm/Collectives.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_COLLECTIVE_H
#define HEDDLE_PLANFORMAT_COLLECTIVE_H

#include "heddle/PlanFormat/Command.h"

#include <algorithm>

namespace heddle::plan {

inline constexpr int numCollectiveKinds = enumNames<CollectiveKind>.size();

/// How a buffer that is split among n ranks holds its parts: `outer` rows, each
/// a list of segments, each segment n equal runs, one for each rank. A rank's
/// part is, row for row and segment for segment, its runs.
struct PartLayout {
  int64_t outer = 1;
  /// Elements of each segment of a row, all ranks' runs together; empty: the
  /// row is one segment.
  std::vector<int64_t> segments;

  bool isContiguous() const { return outer == 1 && segments.size() <= 1; }
};

/// Whether a buffer of `count` elements can be split so among `ranks`.
inline bool splits(const PartLayout &layout, int64_t count, int64_t ranks) {
  if (layout.outer < 1 || count % layout.outer != 0)
    return false;
  int64_t row = count / layout.outer, left = row;
  if (layout.segments.empty())
    return row % ranks == 0;
  for (int64_t segment : layout.segments) {
    if (segment < 0 || segment > left || segment % ranks != 0)
      return false;
    left -= segment;
  }
  return left == 0;
}

/// One collective as every rank of its group runs it.
struct CollectiveShape {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DType type = DType::F32; ///< Of the buffers: F32, BF16, F16; moves also I32.
  DType wire = DType::F32; ///< Of what is sent: one of the floats, or `type`.
  int64_t ranks = 1;
  /// Elements of the whole buffer: AllReduce: of source and destination;
  /// ReduceScatter: of the source; AllGather: of the destination; AllToAll and
  /// Rotate: of either. But for AllReduce and Rotate a multiple of the ranks
  /// (and rows, segments).
  int64_t count = 0;
  /// Of the split buffer: ReduceScatter and AllToAll: the source; AllGather:
  /// the destination. AllReduce and Rotate: not used.
  PartLayout layout;
  /// AllToAll: of the destination.
  PartLayout concat;
  /// Elements that are converted, or received to be summed, at a time where
  /// that needs staging: enough for full bandwidth, few enough for a cache.
  int64_t mostStaged = int64_t(1) << 20;
};

/// Elements that piece `rank` of an AllReduce has: ceil(count / ranks), the
/// last pieces fewer or none; of a Rotate: all; of the others: a rank's part.
inline int64_t partElements(const CollectiveShape &shape, int64_t rank) {
  if (shape.kind == CollectiveKind::Rotate)
    return shape.count;
  int64_t most = (shape.count + shape.ranks - 1) / shape.ranks;
  int64_t begin = std::min(rank * most, shape.count);
  return std::min(most, shape.count - begin);
}

/// The bytes of payload that rank number `rank` of the group sends.
inline int64_t bytesSent(const CollectiveShape &shape, int64_t rank) {
  int64_t others = shape.ranks - 1;
  if (shape.kind == CollectiveKind::Rotate)
    others = std::min<int64_t>(others, 1);
  int64_t own = partElements(shape, rank);
  int64_t elements = own * others;
  if (shape.kind == CollectiveKind::AllReduce)
    elements += shape.count - own; // The reduce-scatter before the all-gather.
  return elements * byteSize(shape.wire);
}

/// The parts of the staging buffer: byte offsets, each 64-byte aligned.
struct StagingLayout {
  int64_t send = 0; ///< What is sent, where it is not sent from its place.
  int64_t receive = 0; ///< Slots: one; for a sum one for each other rank.
  int64_t slot = 0;    ///< Bytes of a slot.
  int64_t sum = 0; ///< Floats, where the destination cannot hold them.
  int64_t bytes = 0;
  int64_t chunk = 0; ///< Elements of a part that pass through it at a time.
};

/// Of the fixed-order algorithms; the same on every rank of the group.
inline StagingLayout stagingLayout(const CollectiveShape &shape) {
  if (shape.ranks == 1)
    return {};
  using Kind = CollectiveKind;
  bool converts = shape.type != shape.wire;
  bool sums =
      shape.kind == Kind::AllReduce || shape.kind == Kind::ReduceScatter;
  bool sendsInPlace = !converts;
  if (shape.kind == Kind::ReduceScatter || shape.kind == Kind::AllToAll)
    sendsInPlace &= shape.layout.isContiguous();
  const PartLayout &to =
      shape.kind == Kind::AllToAll ? shape.concat : shape.layout;
  bool receivesInPlace = !sums && !converts && to.isContiguous();
  auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  StagingLayout staging;
  staging.chunk = partElements(shape, 0);
  int64_t slots = receivesInPlace ? 0 : sums ? shape.ranks - 1 : 1;
  // A message of few elements would take as long as one of these.
  int64_t fewest = std::min(shape.mostStaged, int64_t(1) << 13);
  if (!sendsInPlace || !receivesInPlace)
    staging.chunk = std::min(
        staging.chunk,
        std::max(shape.mostStaged / std::max<int64_t>(slots, 1), fewest));
  staging.slot = aligned(staging.chunk * byteSize(shape.wire));
  staging.receive = sendsInPlace ? 0 : staging.slot;
  staging.sum = staging.receive + slots * staging.slot;
  staging.bytes = staging.sum;
  if (sums && shape.type != DType::F32)
    staging.bytes += aligned(staging.chunk * byteSize(DType::F32));
  return staging;
}

/// Of the MPI library's own algorithms: what `send` and `receive` hold is whole
/// (the parts of all ranks) where a part or a piece is above.
inline StagingLayout libraryStagingLayout(const CollectiveShape &shape) {
  if (shape.ranks == 1)
    return {};
  auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  bool moves = shape.kind == CollectiveKind::AllGather ||
               shape.kind == CollectiveKind::AllToAll;
  int64_t width = byteSize(moves ? shape.wire : DType::F32);
  StagingLayout staging;
  staging.receive = aligned(shape.count * width);
  staging.sum = staging.receive + aligned(shape.count * width);
  staging.bytes = staging.sum;
  return staging;
}

/// Bytes of staging memory that a collective needs, 64-byte aligned. With
/// `library`, enough for either kind of algorithm.
inline int64_t stagingBytes(const CollectiveShape &shape,
                            bool library = false) {
  int64_t bytes = stagingLayout(shape).bytes;
  return library ? std::max(bytes, libraryStagingLayout(shape).bytes) : bytes;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_COLLECTIVE_H
