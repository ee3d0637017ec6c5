//===- Engine.h - What computes the tokens of sequences ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between what decides which tokens are computed next (Scheduler.h) and what
// computes them: the compiled programs, or a function in tests.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_ENGINE_H
#define HEDDLE_RUNTIME_SERVE_ENGINE_H

#include "heddle/PlanFormat/CachePages.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// What an engine was compiled for.
struct EngineLimits {
  int64_t vocab = 0;
  int64_t maxRows = 0;    ///< Feeds of one run, each of another text.
  int64_t maxChunk = 0;   ///< Tokens of the feeds of one run that have several.
  int64_t pageTokens = 0; ///< Positions that a page of the cache holds.
  int64_t numPages = 0;   ///< Pages of the cache, for all sequences together.
  int64_t maxContext = 0; ///< Tokens of one sequence, prompt and text.
  /// Positions that a token sees, its own counted; 0: all.
  int64_t window = 0;
  /// Tokens behind the first that a feed may have and still be one of the feeds
  /// that are computed together.
  int64_t maxGuesses = 0;
  /// Of ranks that compute texts of their own, each with a cache of its own.
  /// All that is above is of one group.
  int64_t groups = 1;
  /// Tokens of a feed of a prompt whose logits may all be wanted; 0: none.
  int64_t maxScored = 0;

  plan::CachePages cachePages() const { return {pageTokens, window}; }
  /// Pages for text `number` of some that have so many tokens each, and the
  /// cache to themselves.
  std::vector<int32_t> pagesOfSequence(int64_t tokens,
                                       int64_t number = 0) const {
    plan::CachePages sizes = cachePages();
    int64_t most = sizes.mostOf(tokens, maxChunk);
    std::vector<int32_t> pages(sizes.pagesFor(tokens));
    for (size_t i = 0; i < pages.size(); ++i)
      pages[i] = int32_t(number * most + int64_t(i) % most);
    return pages;
  }
};

/// Stands in tables where a sequence has no page: nobody sees it any more.
inline constexpr int32_t noPage = -1;

/// Tokens of one sequence that are computed in one run: a chunk of a prompt,
/// or the token that was chosen last and guesses of those behind it.
struct Feed {
  uint64_t sequence = 0;       ///< Different for each sequence that lives.
  std::vector<int32_t> tokens; ///< At least one.
  int64_t position = 0;        ///< Of the first token, from 0.
  /// Page `i` holds positions i * pageTokens on: at least as many as the last
  /// token of this feed needs. The engine writes positions `position` to
  /// `position + tokens.size() - 1` and reads those and all before that are
  /// seen from there, which it has written earlier: for this sequence, or for
  /// another one that began with the same tokens. Others may be `noPage`.
  std::vector<int32_t> pages;
  /// Of so many tokens, the last ones, they are wanted. Where there are more
  /// tokens than guesses: of the last, or of all of at most `maxScored`.
  int64_t numLogits = 0;
  int64_t group = 0; ///< Of ranks, which has the pages and computes it.
};

/// The tokens whose logits some feeds want.
inline int64_t countLogits(const std::vector<Feed> &feeds) {
  int64_t count = 0;
  for (const Feed &feed : feeds)
    count += feed.numLogits;
  return count;
}

/// Computes tokens through a cache of pages. One thread calls it.
///
/// What a feed computes must not depend, in any bit, on the other feeds of the
/// run, on how its sequence was cut into feeds, nor on which pages it has.
class Engine {
public:
  virtual ~Engine() = default;
  virtual const EngineLimits &limits() const = 0;
  /// Computes the feeds, each of another sequence. Writes the logits that they
  /// want, in their order, to `logits` [sum of numLogits][vocab]. More than one
  /// are wanted of feeds of at most 1 + maxGuesses tokens alone. Throws a
  /// UserError when it cannot go on, as when a rank is lost.
  virtual void run(const std::vector<Feed> &feeds, float *logits) = 0;

  /// In a job of several ranks rank 0 alone decides: it calls `run`, which
  /// tells the others, and `finish` in the end. They call `follow`, which
  /// computes what they are told and returns after `finish`.
  virtual void follow() {}
  virtual void finish() {}
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_ENGINE_H
