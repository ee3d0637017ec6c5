//===- PagePool.cpp - Pages of the key-value cache ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/PagePool.h"
#include "heddle/runtime/serve/Engine.h"

#include <algorithm>
#include <cassert>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle::rt;

PagePool::PagePool(int64_t numPages, plan::CachePages cachePages)
    : sizes(cachePages), pages(numPages) {
  // Add page 0 last: pages are taken from the end of the list, and page 0 is
  // to be taken first.
  for (int64_t page = numPages; page-- > 0;)
    freePages.push_back(Page(page));
}

size_t PagePool::KeyHash::operator()(const Key &key) const {
  return XXH3_64bits_withSeed(key.tokens.data(),
                              key.tokens.size() * sizeof(int32_t), key.before);
}

PagePool::Page PagePool::evict() {
  auto oldest = kept.begin();
  Page page = oldest->second;
  kept.erase(oldest);
  published.erase(*pages[page].key);
  pages[page].key.reset();
  return page;
}

std::optional<PagePool::Page> PagePool::take() {
  if (available() == 0)
    return std::nullopt;
  Page page;
  if (freePages.empty()) {
    page = evict();
  } else {
    page = freePages.back();
    freePages.pop_back();
  }
  pages[page].owners = 1;
  return page;
}

void PagePool::release(Page page) {
  State &state = pages[page];
  assert(state.owners > 0 && "released more often than taken");
  if (--state.owners > 0)
    return;
  if (!state.key) {
    freePages.push_back(page);
    return;
  }
  state.released = ++clock;
  kept.emplace(state.released, page);
}

PagePool::Match PagePool::match(const std::vector<int32_t> &tokens,
                                int64_t most) const {
  Match match;
  Chain chain = 0;
  const int64_t size = sizes.pageTokens;
  most = std::min(most, int64_t(tokens.size()) / size);
  while (int64_t(match.pages.size()) < most) {
    auto begin = tokens.begin() + int64_t(match.pages.size()) * size;
    auto found = published.find({chain, {begin, begin + size}});
    if (found == published.end())
      break;
    match.pages.push_back(found->second);
    chain = pages[found->second].chain;
  }
  match.firstSeen = size_t(sizes.firstSeen(int64_t(match.pages.size()) * size));
  return match;
}

PagePool::Found PagePool::find(const std::vector<int32_t> &tokens,
                               int64_t most) const {
  Match found = match(tokens, most);
  int64_t kept = 0;
  for (size_t i = found.firstSeen; i < found.pages.size(); ++i)
    kept += pages[found.pages[i]].owners == 0;
  return {int64_t(found.pages.size()), kept};
}

PagePool::Prefix PagePool::share(const std::vector<int32_t> &tokens,
                                 int64_t most) {
  Match found = match(tokens, most);
  Prefix prefix;
  if (!found.pages.empty())
    prefix.chain = pages[found.pages.back()].chain;
  for (size_t i = found.firstSeen; i < found.pages.size(); ++i) {
    State &state = pages[found.pages[i]];
    if (state.owners++ == 0)
      kept.erase(state.released);
  }
  prefix.pages = std::move(found.pages);
  std::fill_n(prefix.pages.begin(),
              std::min(found.firstSeen, prefix.pages.size()), noPage);
  return prefix;
}

PagePool::Chain PagePool::publish(Page page, const int32_t *tokens,
                                  Chain before) {
  State &state = pages[page];
  assert(state.owners > 0 && !state.key && "publish what is yours, once");
  Key key{before, {tokens, tokens + sizes.pageTokens}};
  auto [place, isNew] = published.emplace(key, page);
  if (!isNew)
    return pages[place->second].chain;
  state.key = std::move(key);
  state.chain = ++lastChain;
  return state.chain;
}

bool PagePool::isConsistent() const {
  std::vector<int> places(pages.size());
  for (Page page : freePages) {
    places[page] += 1;
    if (pages[page].owners != 0 || pages[page].key)
      return false;
  }
  for (auto [time, page] : kept) {
    places[page] += 1;
    if (pages[page].owners != 0 || !pages[page].key ||
        pages[page].released != time)
      return false;
  }
  size_t numPublished = 0;
  for (size_t page = 0; page < pages.size(); ++page) {
    const State &state = pages[page];
    if (places[page] + (state.owners > 0) != 1 || state.owners < 0)
      return false;
    if (!state.key)
      continue;
    ++numPublished;
    auto found = published.find(*state.key);
    if (found == published.end() || found->second != Page(page))
      return false;
  }
  return numPublished == published.size();
}
