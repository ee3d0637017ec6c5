//===- PagePool.h - Who has which page of the cache -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of keys and values consists of pages that hold a fixed number of
// tokens each. A sequence has a table of pages. Sequences that begin with the
// same tokens share the full pages of these, which nobody writes again (Kwon
// et al., "PagedAttention", 2023, arXiv 2309.06180).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_PAGEPOOL_H
#define HEDDLE_RUNTIME_SERVE_PAGEPOOL_H

#include "heddle/PlanFormat/CachePages.h"

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace heddle::rt {

/// Hands out pages. A page is in one of three states: free; owned by one or
/// more sequences; or kept, because its tokens may be wanted again. Kept pages
/// are handed out when no free one is left, those first that nobody has wanted
/// for the longest time.
class PagePool {
public:
  using Page = int32_t;
  /// Names the tokens from the beginning of a sequence to the end of a
  /// published page; 0: none.
  using Chain = uint64_t;

  PagePool(int64_t numPages, plan::CachePages cachePages);

  /// A page with one owner; nothing when every page is owned.
  std::optional<Page> take();
  /// One owner less. The last one of a page that was not published frees it.
  void release(Page page);

  struct Prefix {
    /// Each with the caller as one more owner, but for those that what follows
    /// them does not see: for these there is `noPage`.
    std::vector<Page> pages;
    Chain chain = 0; ///< Of the last of them.
  };
  /// The published pages that hold the first tokens of `tokens`, at most
  /// `most` pages.
  Prefix share(const std::vector<int32_t> &tokens, int64_t most);
  /// How many pages `share` would find, and how many kept ones it would take:
  /// these are no longer available afterwards.
  struct Found {
    int64_t pages = 0, kept = 0;
  };
  Found find(const std::vector<int32_t> &tokens, int64_t most) const;

  /// Lets others find an owned page that `pageTokens` tokens from `tokens` on
  /// fill. They follow what `before` names. Nobody may write to the page any
  /// more. Gives their chain, also where another page already holds the same.
  Chain publish(Page page, const int32_t *tokens, Chain before);

  int64_t numPages() const { return pages.size(); }
  const plan::CachePages &cachePages() const { return sizes; }
  int64_t pageTokens() const { return sizes.pageTokens; }
  /// Pages that `take` can give.
  int64_t available() const { return freePages.size() + kept.size(); }
  int64_t numOwned() const { return numPages() - available(); }
  int64_t numKept() const { return kept.size(); }
  /// How many sequences have the page; 0: it is free or kept.
  int64_t owners(Page page) const { return pages[page].owners; }
  bool isPublished(Page page) const { return pages[page].key.has_value(); }

  /// Counts everything anew; false when a page is lost, or in two states. For
  /// tests.
  bool isConsistent() const;

private:
  struct Key {
    Chain before;
    std::vector<int32_t> tokens;
    bool operator==(const Key &other) const {
      return before == other.before && tokens == other.tokens;
    }
  };
  struct KeyHash {
    size_t operator()(const Key &key) const;
  };
  struct State {
    int64_t owners = 0;
    std::optional<Key> key; ///< Of a published page that can be found.
    Chain chain = 0;        ///< Of the same.
    uint64_t released = 0;  ///< The key in `kept`.
  };
  Page evict();
  /// The published pages that hold the first tokens, and the first of them that
  /// what follows sees.
  struct Match {
    std::vector<Page> pages;
    size_t firstSeen = 0;
  };
  Match match(const std::vector<int32_t> &tokens, int64_t most) const;

  plan::CachePages sizes;
  std::vector<State> pages;
  std::vector<Page> freePages;
  std::map<uint64_t, Page> kept; ///< By the time of the last release.
  std::unordered_map<Key, Page, KeyHash> published;
  uint64_t clock = 0;
  Chain lastChain = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_PAGEPOOL_H
