//===- Drafter.h - Guesses of the next tokens -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small model guesses tokens, one after the other, and the large one computes
// all of them in one run (Leviathan et al., 2023, arXiv 2211.17192). The papers
// accept a guess with a probability that keeps the distribution. Here the large
// model chooses each token with the random numbers of its position, as it does
// without guesses, and a guess is right if it is that token: the sequence is
// the same one. The small model chooses with the same numbers, so it guesses
// what the large one chooses as far as their distributions are alike (Daliri et
// al., 2024, arXiv 2408.07978).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_DRAFTER_H
#define HEDDLE_RUNTIME_SERVE_DRAFTER_H

#include "heddle/runtime/serve/PageChecker.h"
#include "heddle/runtime/serve/Sampler.h"

#include <vector>

namespace heddle::rt {

/// A sequence whose next tokens are guessed.
struct DraftedSequence {
  uint64_t id = 0;                   ///< As in its feeds.
  std::vector<int32_t> *tokens;      ///< To which guesses are added.
  const std::vector<int32_t> *pages; ///< For all of them.
  Sampler *sampler;
  /// Tokens in the draft's cache; at most 1 + maxGuesses of the draft are
  /// behind them.
  int64_t *computed;
  int64_t wanted = 0; ///< Guesses that are still to be made.
  int64_t group = 0;  ///< As in its feeds.
};

/// Guesses with a model whose cache has the pages of the one that checks: each
/// page holds the same positions of the same sequence in both.
class Drafter {
public:
  /// `checked`: the pools of the groups, where pages are checked; else none.
  Drafter(Engine &engine, const std::vector<const PagePool *> &checked)
      : engine(engine) {
    for (const PagePool *pool : checked)
      checkers.emplace_back(*pool);
  }

  /// Computes tokens of a prompt, which begins with `tokens`.
  void compute(Feed feed, const std::vector<int32_t> &tokens);
  /// Adds the guesses. All tokens but the last guess are in the cache then.
  void guess(std::vector<DraftedSequence> sequences);

private:
  void check(const Feed &feed, const std::vector<int32_t> &tokens) {
    if (!checkers.empty())
      checkers[feed.group].check(feed, tokens);
  }

  Engine &engine;
  std::vector<PageChecker> checkers; ///< Of the groups.
  std::vector<float> logits;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_DRAFTER_H
