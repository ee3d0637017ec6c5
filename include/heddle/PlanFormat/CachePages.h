//===- CachePages.h - Pages of the key-value cache --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the pages of the key-value cache that a request needs. The compiler
// uses it to make the cache large enough for at least one request. The server
// uses it to assign pages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_CACHEPAGES_H
#define HEDDLE_PLANFORMAT_CACHEPAGES_H

#include <algorithm>
#include <cstdint>

namespace heddle::plan {

/// A cache with pages of `pageTokens` positions. Every token attends to the
/// last `window` positions, of which its own is the last; if `window` is 0, it
/// attends to all positions up to its own.
struct CachePages {
  int64_t pageTokens = 1, window = 0;

  int64_t pagesFor(int64_t tokens) const {
    return (tokens + pageTokens - 1) / pageTokens;
  }
  /// The index of the first page that the token at `position` or any later
  /// token reads.
  int64_t firstSeen(int64_t position) const {
    if (window == 0)
      return 0;
    return std::max<int64_t>(position - window + 1, 0) / pageTokens;
  }
  /// The most pages that a sequence of `tokens` tokens needs at a time, if at
  /// most `chunk` of these tokens are computed at once. A page is freed when no
  /// later token reads it.
  int64_t mostOf(int64_t tokens, int64_t chunk) const {
    int64_t all = pagesFor(tokens);
    if (window == 0)
      return all;
    return std::min(all, pagesFor(window - 1) + pagesFor(chunk) + 1);
  }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_CACHEPAGES_H
