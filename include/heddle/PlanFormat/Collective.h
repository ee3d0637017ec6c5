//===- Collective.h - Sizes and traffic of a collective ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the staging memory of a collective and the bytes that a rank sends.
// The compiler plans memory with these formulas, and the runtime counts traffic
// with them. runtime/comm/Collectives.cpp has the algorithms.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_COLLECTIVE_H
#define HEDDLE_PLANFORMAT_COLLECTIVE_H

#include "heddle/PlanFormat/Command.h"

#include <algorithm>

namespace heddle::plan {

inline constexpr int numCollectiveKinds = enumNames<CollectiveKind>.size();

/// How a buffer is split among n ranks. The buffer has `outer` rows. Each row
/// consists of segments. Each segment consists of n equal ranges, one for each
/// rank. The part of a rank consists of the rank's range of every segment of
/// every row, in the order of the buffer.
struct PartLayout {
  int64_t outer = 1;
  /// The number of elements of each segment of a row. It counts the ranges of
  /// all ranks. If the list is empty, the row is one segment.
  std::vector<int64_t> segments;

  bool isContiguous() const { return outer == 1 && segments.size() <= 1; }
};

/// Whether a buffer of `count` elements can have this layout among `ranks`
/// ranks.
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

/// The sizes of a collective, equal on every rank of its group.
struct CollectiveShape {
  CollectiveKind kind = CollectiveKind::AllReduce;
  /// Type of the buffers: F32, BF16 or F16. Collectives that do not reduce can
  /// also transfer I32.
  DType type = DType::F32;
  /// The type that is sent: a float type, or the same as `type`.
  DType wire = DType::F32;
  int64_t ranks = 1;
  /// The number of elements of the whole buffer: of the source for
  /// ReduceScatter, of the destination for AllGather. For other kinds, source
  /// and destination have equally many elements. Except for AllReduce and
  /// Rotate, the number is a multiple of `ranks` times the rows and segments of
  /// `layout`.
  int64_t count = 0;
  /// Layout of the split buffer: the source of ReduceScatter and AllToAll, the
  /// destination of AllGather. Unused by AllReduce and Rotate.
  PartLayout layout;
  /// Only for AllToAll: the layout of the destination.
  PartLayout concat;
  /// The largest number of elements that a rank handles at a time when it
  /// converts them, or when it receives them to add them. It is large enough
  /// for full bandwidth, and small enough for the processor's cache.
  int64_t mostStaged = int64_t(1) << 20;
};

/// The number of elements in the part of the buffer that belongs to rank
/// `rank`. It is ceil(count / ranks) for AllReduce, where the last ranks have
/// fewer elements or none; `count` for Rotate; count / ranks for other kinds.
inline int64_t partElements(const CollectiveShape &shape, int64_t rank) {
  if (shape.kind == CollectiveKind::Rotate)
    return shape.count;
  int64_t most = (shape.count + shape.ranks - 1) / shape.ranks;
  int64_t begin = std::min(rank * most, shape.count);
  return std::min(most, shape.count - begin);
}

/// The bytes of payload that rank `rank` of the group sends.
inline int64_t bytesSent(const CollectiveShape &shape, int64_t rank) {
  int64_t others = shape.ranks - 1;
  if (shape.kind == CollectiveKind::Rotate)
    others = std::min<int64_t>(others, 1);
  int64_t own = partElements(shape, rank);
  int64_t elements = own * others;
  if (shape.kind == CollectiveKind::AllReduce)
    // An all-reduce is a reduce-scatter followed by an all-gather. Add what the
    // all-gather sends.
    elements += shape.count - own;
  return elements * byteSize(shape.wire);
}

/// The layout of the staging buffer. It has three regions, `send`, `receive`
/// and `sum`. These members are their byte offsets, each 64-byte aligned.
struct StagingLayout {
  /// The region for elements to send, converted to `wire`. It is used unless
  /// the elements can be sent directly from the source buffer.
  int64_t send = 0;
  /// The region for received elements. It has a slot for each other rank if the
  /// collective sums, otherwise at most one slot.
  int64_t receive = 0;
  int64_t slot = 0; ///< The number of bytes of a slot.
  /// The region for sums in f32. It is used if the collective sums and its
  /// destination has another type.
  int64_t sum = 0;
  int64_t bytes = 0; ///< The size of the staging buffer.
  int64_t chunk = 0; ///< How many elements of a part are staged at a time.
};

/// The layout of the staging buffer for the fixed-order algorithms. It is equal
/// on every rank of the group.
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
  // A chunk (the elements that are staged at a time) need not be smaller than
  // `fewest` elements: sending smaller messages would not be faster, because
  // latency dominates.
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

/// The staging buffer of the MPI library's algorithms. `send` and `receive`
/// hold whole buffers (the parts of all ranks) here.
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
/// `library` they suffice both for the fixed-order algorithms and for those of
/// the MPI library.
inline int64_t stagingBytes(const CollectiveShape &shape,
                            bool library = false) {
  int64_t bytes = stagingLayout(shape).bytes;
  return library ? std::max(bytes, libraryStagingLayout(shape).bytes) : bytes;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_COLLECTIVE_H
