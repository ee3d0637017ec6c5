//===- PageCheckerTest.cpp - Tests of what pages are checked for ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/PageChecker.h"

#include <gtest/gtest.h>
#include <stdexcept>

using namespace heddle::rt;

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
