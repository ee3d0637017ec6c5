//===- PageCheckerTest.cpp - Tests of what pages are checked for ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/PageChecker.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <stdexcept>

using namespace heddle::rt;

namespace {

/// Texts that are computed in turn, over pages of one pool.
class Texts {
public:
  explicit Texts(uint64_t seed) : random(seed), checker(pool) {
    for (int32_t first = 0; first < count; ++first) {
      texts.push_back({uint64_t(first + 1), {first}, 0, {}});
      while (texts.back().tokens.size() < 40)
        texts.back().tokens.push_back(int32_t(below(7)));
    }
  }

  int64_t below(int64_t n) { return int64_t(random() % n); }

  /// The next tokens of a text, and pages for them.
  Feed next(size_t index) {
    Text &text = texts[index];
    int64_t length = 1 + below(below(2) ? 9 : 2);
    Feed feed{text.id, {}, text.done, {}};
    for (; length > 0 && text.done < int64_t(text.tokens.size()); --length)
      feed.tokens.push_back(text.tokens[text.done++]);
    while (int64_t(text.pages.size()) * pool.pageTokens() < text.done)
      text.pages.push_back(*pool.take());
    feed.pages = text.pages;
    return feed;
  }
  bool isRight(size_t index, const Feed &feed) {
    try {
      checker.check(feed, texts[index].tokens);
      return true;
    } catch (const std::logic_error &) {
      return false;
    }
  }

  /// A page of another text, or of none.
  int32_t otherPage(size_t index) {
    const Text &other = texts[(index + 1 + below(count - 1)) % count];
    return other.pages.empty() || below(3) == 0
               ? *pool.take()
               : other.pages[below(other.pages.size())];
  }

  /// Changes where the feed says that the text is. False: nothing changed.
  bool spoil(size_t index, Feed &feed) {
    const Feed before = feed;
    std::vector<int32_t> &pages = feed.pages;
    switch (below(6)) {
    case 0:
      std::rotate(pages.begin(), pages.begin() + 1, pages.end());
      break;
    case 1:
      std::rotate(pages.begin(), pages.end() - 1, pages.end());
      break;
    case 2:
      std::swap(pages[below(pages.size())], pages[below(pages.size())]);
      break;
    case 3:
      pages[below(pages.size())] = otherPage(index);
      break;
    case 4:
      pages.pop_back();
      break;
    default: // A run that was left out, or comes again.
      feed.position += below(2) || feed.position == 0 ? 1 : -1;
    }
    return pages != before.pages || feed.position != before.position;
  }

  static constexpr int64_t count = 3;

private:
  struct Text {
    uint64_t id;
    std::vector<int32_t> tokens;
    int64_t done;
    std::vector<int32_t> pages;
  };
  std::mt19937_64 random;
  PagePool pool{60, {3}};
  PageChecker checker;
  std::vector<Text> texts;
};

} // namespace

TEST(PageChecker, PagesBehindAWindowAreNotRead) {
  PagePool pool(4, {2, /*window=*/3});
  PageChecker checker(pool);
  PagePool::Page first = *pool.take(), second = *pool.take();
  checker.check({1, {5, 6, 7}, 0, {first, second}, 0}, {5, 6, 7});
  // Position 3 sees 1 to 3, position 4 sees 2 to 4.
  PagePool::Page third = *pool.take();
  std::vector<int32_t> pages = {noPage, second, third};
  EXPECT_THROW(checker.check({1, {8}, 3, pages, 0}, {5, 6, 7, 8}),
               std::logic_error);
  checker.check({1, {8}, 3, {first, second, third}, 0}, {5, 6, 7, 8});
  checker.check({1, {9}, 4, pages, 0}, {5, 6, 7, 8, 9});
}

TEST(PageChecker, PagesOfOthersAreNoticed) {
  PagePool pool(4, {2});
  PageChecker checker(pool);
  PagePool::Page page = *pool.take(), other = *pool.take();
  checker.check({1, {5, 6}, 0, {page}, 0}, {5, 6});
  checker.check({1, {7}, 2, {page, other}, 0}, {5, 6, 7});
  // Another sequence's tokens, a page without an owner, and a shared one.
  EXPECT_THROW(checker.check({2, {7}, 2, {page, other}, 0}, {5, 5, 7}),
               std::logic_error);
  EXPECT_THROW(checker.check({2, {7}, 2, {page}, 0}, {5, 6, 7}),
               std::logic_error);
  std::vector<int32_t> tokens = {5, 6};
  pool.publish(page, tokens.data(), 0);
  EXPECT_THROW(checker.check({1, {5, 6}, 0, {page}, 0}, {5, 6}),
               std::logic_error);
  pool.release(page);
  EXPECT_THROW(checker.check({1, {7}, 2, {page, other}, 0}, {5, 6, 7}),
               std::logic_error);
}

// A wrong table of pages is noticed at once, or when somebody reads what was
// written through it.
TEST(PageChecker, SpoiltTablesAreNoticed) {
  int spoilt = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Texts texts(seed);
    for (int64_t steps = texts.below(20); steps > 0; --steps) {
      size_t index = texts.below(Texts::count);
      Feed feed = texts.next(index);
      if (!feed.tokens.empty())
        ASSERT_TRUE(texts.isRight(index, feed)) << seed;
    }
    size_t index = texts.below(Texts::count);
    Feed feed = texts.next(index);
    if (feed.tokens.empty() || !texts.spoil(index, feed))
      continue;
    ++spoilt;
    bool isNoticed = !texts.isRight(index, feed);
    for (size_t other = 0; !isNoticed && other < Texts::count; ++other)
      isNoticed = !texts.isRight(other, texts.next(other));
    EXPECT_TRUE(isNoticed) << seed;
  }
  EXPECT_GT(spoilt, 300);
}
