//===- ByteMap.h - A value for each byte ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A map of memory that holds what a check knows about each byte, for example
// which buffer the byte was written for. A check updates the map while it
// executes a trace.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_BYTEMAP_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_BYTEMAP_H

#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::prove {

/// A map from every byte of an address space to a value, at first `Value()`.
/// Adjacent bytes with the same value are stored as one piece.
template <typename Value> class ByteMap {
public:
  void set(Range range, Value value) {
    if (range.begin >= range.end)
      return;
    // Fast path: exactly this range was set before.
    if (auto piece = pieces.find(range.begin); piece != pieces.end())
      if (auto next = std::next(piece);
          next != pieces.end() && next->first == range.end) {
        piece->second = value;
        return;
      }
    auto [first, last] = cut(range);
    pieces.erase(first, last);
    pieces[range.begin] = value;
  }

  bool operator<(const ByteMap &other) const { return pieces < other.pieces; }

protected:
  /// The value of each piece (adjacent bytes with the same value), by the
  /// piece's first byte.
  using Pieces = std::map<int64_t, Value>;

  /// Calls `change` for the value of each piece (adjacent bytes with the same
  /// value) of the range.
  template <typename Change> void update(Range range, Change change) {
    if (range.begin >= range.end)
      return;
    auto [first, last] = cut(range);
    for (; first != last; ++first)
      change(first->second);
  }

  /// Merges adjacent ranges of bytes with equal values for which `mayMerge`
  /// holds, so that equal maps compare equal.
  template <typename MayMerge> void merge(MayMerge mayMerge) {
    for (auto piece = std::next(pieces.begin()); piece != pieces.end();)
      piece =
          mayMerge(piece->second) && piece->second == std::prev(piece)->second
              ? pieces.erase(piece)
              : std::next(piece);
  }

  Pieces pieces = {{INT64_MIN, Value()}};

private:
  using Iterator = typename Pieces::iterator;

  /// Splits pieces (adjacent bytes with the same value) at the ends of the
  /// range. Returns the pieces in the range.
  std::pair<Iterator, Iterator> cut(Range range) {
    for (int64_t byte : {range.begin, range.end})
      pieces.emplace(byte, std::prev(pieces.upper_bound(byte))->second);
    return {pieces.find(range.begin), pieces.find(range.end)};
  }
};

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_BYTEMAP_H
