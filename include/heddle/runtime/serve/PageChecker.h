//===- PageChecker.h - That sequences stay within their pages ----*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_PAGECHECKER_H
#define HEDDLE_RUNTIME_SERVE_PAGECHECKER_H

#include "heddle/runtime/serve/Engine.h"
#include "heddle/runtime/serve/PagePool.h"

namespace heddle::rt {

/// Follows what every position of every page holds, apart from the pool. For
/// tests, and where HEDDLE_CHECK_PAGES is set.
class PageChecker {
public:
  explicit PageChecker(const PagePool &pool)
      : pool(pool), written(pool.numPages() * pool.pageTokens()) {}

  /// Throws std::logic_error unless `feed`, of the sequence with the tokens
  /// `context`, reads what was computed from these tokens alone, in pages that
  /// are owned, and writes to pages that no other sequence has or can find.
  void check(const Feed &feed, const std::vector<int32_t> &context);

private:
  const PagePool &pool;
  /// For each position of each page a hash of the tokens up to it.
  std::vector<uint64_t> written;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_PAGECHECKER_H
