//===- PagePool.h - Pages of the key-value cache ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocates the pages of the key-value cache. A page holds a fixed number of
// positions, and each sequence has a page table. Sequences that begin with the
// same tokens share the pages that these tokens fill completely. Such pages are
// never written again (Kwon et al., "PagedAttention", 2023, arXiv 2309.06180).
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

/// Allocates pages of the key-value cache. A page is free, or owned by one or
/// more sequences, or kept: no sequence owns it, but a later prompt that begins
/// with its tokens may share it. When no page is free, `take` reuses the kept
/// page that was released first.
class PagePool {
public:
  using Page = int32_t;
  /// Identifies all tokens from the beginning of a sequence to the end of a
  /// page. Sequences with the same value can share their pages up to there. 0:
  /// no token.
  using Chain = uint64_t;

  PagePool(int64_t numPages, plan::CachePages cachePages);

  /// Returns a page with one owner; nothing when all pages are owned.
  std::optional<Page> take();
  /// Removes one owner. If no owner is left, a page for which `publish` was
  /// called is kept, so that later sequences can share it. Any other page
  /// becomes free.
  void release(Page page);

  struct Prefix {
    /// The pages that `share` found, in the order of the tokens that they hold:
    /// the beginning of the sequence's tokens. The caller becomes an owner of
    /// each page. An entry is `noPage` if the page is outside the attention
    /// window of the next token.
    std::vector<Page> pages;
    Chain chain = 0; ///< Identifies the tokens up to the last page.
  };
  /// Finds pages of other sequences (see `publish`) that hold the beginning of
  /// `tokens`, at most `most` pages. Makes the caller an owner of them.
  Prefix share(const std::vector<int32_t> &tokens, int64_t most);
  /// How many pages `share` would find, and how many of them no sequence owns
  /// (`kept`). `share` makes the latter unavailable to `take`.
  struct Found {
    int64_t pages = 0, kept = 0;
  };
  Found find(const std::vector<int32_t> &tokens, int64_t most) const;

  /// Lets other sequences find an owned page. The page holds the `pageTokens`
  /// tokens at `tokens`, which follow the tokens that `before` identifies. The
  /// page must not be written any more. Returns the value that identifies all
  /// tokens up to the page's end, also if another page already has the same
  /// tokens.
  Chain publish(Page page, const int32_t *tokens, Chain before);

  int64_t numPages() const { return pages.size(); }
  const plan::CachePages &cachePages() const { return sizes; }
  int64_t pageTokens() const { return sizes.pageTokens; }
  /// Number of pages that `take` can return.
  int64_t available() const { return freePages.size() + kept.size(); }
  int64_t numOwned() const { return numPages() - available(); }
  int64_t numKept() const { return kept.size(); }
  /// Number of sequences that own the page; 0: free or kept.
  int64_t owners(Page page) const { return pages[page].owners; }
  bool isPublished(Page page) const { return pages[page].key.has_value(); }

  /// Recounts all pages; false if a page is lost or in two states. For tests.
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
    std::optional<Key> key; ///< Set if the page is published and can be found.
    Chain chain = 0;        ///< Chain of the published page.
    uint64_t released = 0;  ///< When the page was released: its key in `kept`.
  };
  Page evict();
  /// Pages of other sequences that hold the first tokens of a sequence and that
  /// it may share. The next token reads the pages from index `firstSeen` on.
  /// Earlier pages are outside its attention window.
  struct Match {
    std::vector<Page> pages;
    size_t firstSeen = 0;
  };
  Match match(const std::vector<int32_t> &tokens, int64_t most) const;

  plan::CachePages sizes;
  std::vector<State> pages;
  std::vector<Page> freePages;
  /// Pages that no sequence owns but that can be shared. The key is the time of
  /// their release (State::released), since `take` reuses the page first that
  /// was released first.
  std::map<uint64_t, Page> kept;
  std::unordered_map<Key, Page, KeyHash> published;
  uint64_t clock = 0;
  Chain lastChain = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_PAGEPOOL_H
