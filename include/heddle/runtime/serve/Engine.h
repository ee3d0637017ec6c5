//===- Engine.h - The interface of generating models ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface between the scheduler and the compiled model. CompiledEngine
// implements it with a paged key-value cache. UncachedEngine implements it
// without a cache. Tests use an engine without a model, whose logits are hashes
// of the tokens.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_ENGINE_H
#define HEDDLE_RUNTIME_SERVE_ENGINE_H

#include "heddle/PlanFormat/CachePages.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Limits of a compiled engine.
struct EngineLimits {
  int64_t vocab = 0;
  int64_t maxRows = 0; ///< The most sequences (feeds) of one run.
  /// The most prompt tokens that one run computes, summed over the chunks of
  /// prompts of all sequences.
  int64_t maxChunk = 0;
  int64_t pageTokens = 0; ///< Positions in a page of the cache.
  int64_t numPages = 0;   ///< Pages of the cache, for all sequences.
  int64_t maxContext = 0; ///< The most tokens of a sequence, prompt included.
  /// Attention window: positions that a token sees, its own included; 0: all.
  int64_t window = 0;
  /// The most drafted tokens of a sequence that one run of the decode program
  /// verifies, in addition to the newest token. If there are more, they are
  /// computed like a chunk of a prompt.
  int64_t maxGuesses = 0;
  /// Data-parallel groups of ranks, each with its own cache. All other limits
  /// are per group.
  int64_t groups = 1;
  /// If a chunk of a prompt has at most this many tokens, the engine can return
  /// the logits of all of them. 0: it returns those of the last token only.
  int64_t maxScored = 0;

  plan::CachePages cachePages() const { return {pageTokens, window}; }
  /// Returns a page table for a sequence of `tokens` tokens, without a page
  /// pool. `number` is the index of the sequence. Sequences with different
  /// indices get different pages if all have `tokens` tokens.
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

/// The entry of a sequence's page table for a page that the attention window
/// has passed, so that no later token reads the page.
inline constexpr int32_t noPage = -1;

/// Tokens of one sequence for one run: a chunk of its prompt, or the token that
/// was sampled last and drafted tokens after it.
struct Feed {
  uint64_t sequence = 0;       ///< Id, unique among live sequences.
  std::vector<int32_t> tokens; ///< The tokens to compute, at least one.
  int64_t position = 0;        ///< Position of the first token, from 0.
  /// Page table: page `i` holds the positions from i * pageTokens on. The table
  /// has at least the pages up to the last of `tokens`. The engine writes the
  /// keys and values of positions `position` to `position + tokens.size() - 1`.
  /// It reads all positions inside the attention window up to the last of
  /// these. Earlier runs have written the positions before `position`, for this
  /// sequence or for another one with the same beginning. Pages outside the
  /// window may be `noPage`.
  std::vector<int32_t> pages;
  /// Logits are returned for the last `numLogits` of `tokens`. With at most 1 +
  /// EngineLimits::maxGuesses tokens, any number is allowed. With more tokens,
  /// only 0 or 1 is allowed, or all of them if there are at most
  /// EngineLimits::maxScored.
  int64_t numLogits = 0;
  int64_t group = 0; ///< Index of the group of ranks that computes the feed.
};

/// Returns the number of tokens whose logits a run returns. `feeds` has an
/// entry for each sequence of the run.
inline int64_t countLogits(const std::vector<Feed> &feeds) {
  int64_t count = 0;
  for (const Feed &feed : feeds)
    count += feed.numLogits;
  return count;
}

/// Computes tokens with a paged key-value cache. One thread calls it.
///
/// The logits of a sequence must not depend, in any bit, on the other sequences
/// of the run, on how many of its tokens each run computed, nor on which pages
/// it has.
class Engine {
public:
  virtual ~Engine() = default;
  virtual const EngineLimits &limits() const = 0;
  /// Computes the tokens of one or more sequences, with one entry of `feeds`
  /// for each. Writes the requested logits (Feed::numLogits), in the order of
  /// `feeds`, to `logits` [sum of numLogits][vocab]. Throws a UserError when it
  /// cannot continue, as when a rank is lost.
  virtual void run(const std::vector<Feed> &feeds, float *logits) = 0;

  /// In a job of several ranks, rank 0 calls `run` for each run, and `finish`
  /// at the end. Every other rank calls `follow` once, which computes the
  /// tokens that rank 0 sends, and returns when rank 0 calls `finish`.
  virtual void follow() {}
  virtual void finish() {}
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_ENGINE_H
