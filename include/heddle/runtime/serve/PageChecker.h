//===- PageChecker.h - Check that sequences use the right pages -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Debugging aid of the scheduler: verifies that sequences only read pages with
// their own tokens.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_PAGECHECKER_H
#define HEDDLE_RUNTIME_SERVE_PAGECHECKER_H

#include "heddle/runtime/serve/Engine.h"
#include "heddle/runtime/serve/PagePool.h"

namespace heddle::rt {

/// Tracks which tokens' keys and values each page of the key-value cache holds,
/// independently of the page pool that it checks. Used by tests, and in servers
/// if HEDDLE_CHECK_PAGES is set.
class PageChecker {
public:
  explicit PageChecker(const PagePool &pool)
      : pool(pool), written(pool.numPages() * pool.pageTokens()) {}

  /// Records which positions a run writes for one sequence. `feed` has the
  /// tokens that the run computes, and `context` all tokens of the sequence.
  /// Throws std::logic_error if the run reads keys and values of other tokens,
  /// reads a page that no sequence owns, or writes to a page that another
  /// sequence may read.
  void check(const Feed &feed, const std::vector<int32_t> &context);

private:
  const PagePool &pool;
  /// For each position of each page: a hash of all tokens up to it.
  std::vector<uint64_t> written;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_PAGECHECKER_H
