//===- CachePages.h - How many pages of a cache a text has ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler makes the cache so large that one text fits at least; what
// serves hands its pages out.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_CACHEPAGES_H
#define HEDDLE_PLANFORMAT_CACHEPAGES_H

#include <algorithm>
#include <cstdint>

namespace heddle::plan {

/// A cache whose pages have `pageTokens` positions. Every token sees the last
/// `window` positions up to its own, or all for 0.
struct CachePages {
  int64_t pageTokens = 1, window = 0;

  int64_t pagesFor(int64_t tokens) const {
    return (tokens + pageTokens - 1) / pageTokens;
  }
  /// The first page that the token at `position`, or one behind it, reads.
  int64_t firstSeen(int64_t position) const {
    if (window == 0)
      return 0;
    return std::max<int64_t>(position - window + 1, 0) / pageTokens;
  }
  /// Pages that a text of `tokens` tokens has at most at a time, if no more
  /// than `chunk` of them are computed at once: pages that no token will see
  /// any more are given back.
  int64_t mostOf(int64_t tokens, int64_t chunk) const {
    int64_t all = pagesFor(tokens);
    if (window == 0)
      return all;
    return std::min(all, pagesFor(window - 1) + pagesFor(chunk) + 1);
  }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_CACHEPAGES_H
