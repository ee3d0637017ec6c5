//===- PageChecker.cpp - Check that sequences use the right pages ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/PageChecker.h"

#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle::rt;

void PageChecker::check(const Feed &feed, const std::vector<int32_t> &context) {
  auto failAt = [&](int64_t position, const char *what) {
    throw std::logic_error("sequence " + std::to_string(feed.sequence) + " " +
                           what + " position " + std::to_string(position));
  };
  const int64_t size = pool.pageTokens();
  const int64_t end = feed.position + int64_t(feed.tokens.size());
  uint64_t hash = 0;
  const int64_t firstSeen = pool.cachePages().firstSeen(feed.position) * size;
  for (int64_t position = 0; position < end; ++position) {
    hash = XXH3_64bits_withSeed(&context[position], sizeof(int32_t), hash + 1);
    if (position / size >= int64_t(feed.pages.size()))
      failAt(position, "has no page for");
    if (position < firstSeen)
      continue;
    PagePool::Page page = feed.pages[position / size];
    if (page == noPage)
      failAt(position, "has given back its page for");
    uint64_t &slot = written[page * size + position % size];
    if (position < feed.position) {
      if (pool.owners(page) == 0)
        failAt(position, "reads a page that nobody owns at");
      if (slot != hash)
        failAt(position, "reads what is not its own at");
      continue;
    }
    if (pool.owners(page) != 1 || pool.isPublished(page))
      failAt(position, "writes to a page that others may read at");
    if (feed.tokens[position - feed.position] != context[position])
      failAt(position, "computes a token that it does not have at");
    slot = hash;
  }
}
