//===- PagePoolTest.cpp - Tests of who has which page ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/PagePool.h"
#include "heddle/runtime/serve/Engine.h"

#include <gtest/gtest.h>
#include <random>

using namespace heddle::rt;
using Page = PagePool::Page;
using Chain = PagePool::Chain;

/// Takes pages for the whole pages of `tokens` that are not there yet, and
/// publishes them.
static std::vector<Page> fill(PagePool &pool,
                              const std::vector<int32_t> &tokens) {
  int64_t size = pool.pageTokens(), count = tokens.size() / size;
  PagePool::Prefix prefix = pool.share(tokens, count);
  for (int64_t page = prefix.pages.size(); page < count; ++page) {
    prefix.pages.push_back(pool.take().value());
    prefix.chain =
        pool.publish(prefix.pages.back(), &tokens[page * size], prefix.chain);
  }
  return prefix.pages;
}

static void releaseAll(PagePool &pool, const std::vector<Page> &pages) {
  for (size_t i = pages.size(); i-- > 0;)
    pool.release(pages[i]);
}

TEST(PagePool, GivesEachPageOnceAndTakesItBack) {
  PagePool pool(3, {4});
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_EQ(pool.numOwned(), 3);
  pool.release(1);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_TRUE(pool.isConsistent());
}

TEST(PagePool, SharesWhatBeginsAlike) {
  PagePool pool(8, {2});
  std::vector<Page> first = fill(pool, {1, 2, 3, 4, 5, 6});
  PagePool::Prefix other = pool.share({1, 2, 3, 4, 7, 8}, 3);
  EXPECT_EQ(other.pages, (std::vector<Page>{first[0], first[1]}));
  EXPECT_EQ(pool.owners(first[0]), 2);
  EXPECT_EQ(pool.owners(first[2]), 1);
  // The same tokens behind other ones are other values.
  EXPECT_TRUE(pool.share({3, 4, 1, 2}, 2).pages.empty());
  EXPECT_EQ(pool.share({1, 2, 3, 4}, 1).pages.size(), 1u);
  EXPECT_EQ(pool.share({1, 2, 3}, 2).pages.size(), 1u);
  EXPECT_EQ(pool.find({1, 2, 3, 4, 5, 6}, 3).pages, 3);
  EXPECT_EQ(pool.find({1, 2, 3, 4, 5, 6}, 3).kept, 0);
}

TEST(PagePool, SharesWhatAWindowShows) {
  PagePool pool(8, {2, /*window=*/3});
  std::vector<Page> first = fill(pool, {1, 2, 3, 4, 5, 6});
  // What follows six tokens sees the last two of them.
  PagePool::Prefix other = pool.share({1, 2, 3, 4, 5, 6, 7}, 3);
  EXPECT_EQ(other.pages, (std::vector<Page>{noPage, noPage, first[2]}));
  EXPECT_EQ(pool.owners(first[1]), 1);
  EXPECT_EQ(pool.owners(first[2]), 2);
  pool.release(first[2]);
  releaseAll(pool, first);
  EXPECT_EQ(pool.find({1, 2, 3, 4, 5, 6}, 3).kept, 1);
  EXPECT_EQ(pool.find({1, 2, 3, 4}, 2).kept, 1);
  EXPECT_TRUE(pool.isConsistent());
}

TEST(PagePool, KeepsPublishedPagesUntilTheyAreNeeded) {
  PagePool pool(4, {2});
  std::vector<Page> old = fill(pool, {1, 2, 3, 4});
  releaseAll(pool, old);
  std::vector<Page> young = fill(pool, {5, 6});
  releaseAll(pool, young);
  EXPECT_EQ(pool.numKept(), 3);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.find({1, 2, 3, 4}, 2).kept, 2);
  // The free page goes first, then the end of what was unused the longest.
  EXPECT_EQ(pool.take(), 3);
  EXPECT_EQ(pool.take(), old[1]);
  EXPECT_EQ(pool.find({1, 2, 3, 4}, 2).pages, 1);
  EXPECT_EQ(pool.find({5, 6}, 1).pages, 1);
  // Using the rest makes it young.
  releaseAll(pool, pool.share({1, 2}, 1).pages);
  EXPECT_EQ(pool.take(), young[0]);
  EXPECT_EQ(pool.take(), old[0]);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_TRUE(pool.isConsistent());
}

TEST(PagePool, TwoThatFillThePageAtOnceGoOnWithOneChain) {
  PagePool pool(4, {2});
  std::vector<int32_t> tokens = {1, 2, 3, 4};
  Page a = *pool.take(), b = *pool.take();
  Chain first = pool.publish(a, &tokens[0], 0);
  EXPECT_EQ(pool.publish(b, &tokens[0], 0), first);
  EXPECT_FALSE(pool.isPublished(b));
  Page next = *pool.take();
  pool.publish(next, &tokens[2], first);
  EXPECT_EQ(pool.share(tokens, 2).pages, (std::vector<Page>{a, next}));
  pool.release(b);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_TRUE(pool.isConsistent());
}

/// Many sequences over few tokens, so that they share much; a model of which
/// tokens each page holds says what may be found.
TEST(PagePool, RandomUseLosesNoPageAndFindsWhatWasWritten) {
  std::mt19937_64 random(7);
  PagePool pool(23, {3});
  std::vector<std::vector<int32_t>> held(23); // All tokens up to a page's end.
  struct Sequence {
    std::vector<int32_t> tokens;
    std::vector<Page> pages;
  };
  std::vector<Sequence> alive;
  int64_t shared = 0;
  for (int round = 0; round < 20000; ++round) {
    if (!alive.empty() && random() % 2) {
      size_t which = random() % alive.size();
      releaseAll(pool, alive[which].pages);
      alive.erase(alive.begin() + which);
    } else {
      Sequence sequence;
      for (size_t n = 1 + random() % 20; n > 0; --n)
        sequence.tokens.push_back(int32_t(random() % 2));
      int64_t whole = sequence.tokens.size() / 3;
      PagePool::Found found = pool.find(sequence.tokens, whole);
      if (whole - found.pages > pool.available() - found.kept)
        continue;
      std::vector<Page> before = pool.share(sequence.tokens, whole).pages;
      ASSERT_EQ(int64_t(before.size()), found.pages);
      for (size_t i = 0; i < before.size(); ++i)
        ASSERT_EQ(held[before[i]],
                  std::vector<int32_t>(sequence.tokens.begin(),
                                       sequence.tokens.begin() + 3 * (i + 1)));
      shared += before.size();
      sequence.pages = fill(pool, sequence.tokens);
      releaseAll(pool, before);
      for (int64_t i = 0; i < whole; ++i)
        held[sequence.pages[i]] = {sequence.tokens.begin(),
                                   sequence.tokens.begin() + 3 * (i + 1)};
      alive.push_back(sequence);
    }
    ASSERT_TRUE(pool.isConsistent());
  }
  EXPECT_GT(shared, 5000);
  for (const Sequence &sequence : alive)
    releaseAll(pool, sequence.pages);
  EXPECT_EQ(pool.available(), 23);
}
