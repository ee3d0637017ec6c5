//===- Drafter.h - Draft tokens for speculative decoding --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Speculative decoding: a small draft model guesses tokens one by one, and the
// large model verifies all of them in one run (Leviathan et al., 2023, arXiv
// 2211.17192). In the paper, a guess is accepted with a probability that keeps
// the large model's distribution. Here the large model samples each token with
// the random numbers of the token's position, as without a draft, and a guess
// is accepted if it is that token. So the generated text is the same as without
// a draft. The draft samples with the same random numbers, so that it guesses
// right as far as both distributions agree (Daliri et al., 2024, arXiv
// 2408.07978).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_DRAFTER_H
#define HEDDLE_RUNTIME_SERVE_DRAFTER_H

#include "heddle/runtime/serve/PageChecker.h"
#include "heddle/runtime/serve/Sampler.h"

#include <vector>

namespace heddle::rt {

/// A sequence for which tokens are drafted.
struct DraftedSequence {
  uint64_t id = 0; ///< The sequence's id in feeds.
  std::vector<int32_t>
      *tokens; ///< All tokens so far. Drafted tokens are appended.
  /// The sequence's page table, with pages for all tokens including those that
  /// are drafted.
  const std::vector<int32_t> *pages;
  Sampler *sampler;
  /// The number of the sequence's tokens that are in the draft model's cache.
  /// At most 1 + `maxGuesses` tokens are not in it yet, where `maxGuesses` is
  /// the limit of the draft's engine.
  int64_t *computed;
  int64_t wanted = 0; ///< Number of tokens still to draft.
  int64_t group = 0;  ///< The sequence's group in feeds.
};

/// Drafts tokens with a model whose cache uses the page numbers of the large
/// model: a page holds the same positions of the same sequence in both caches.
class Drafter {
public:
  /// `checked` has the page pool of each data-parallel group of ranks if reads
  /// and writes of pages are to be checked (see PageChecker). Otherwise it is
  /// empty.
  Drafter(Engine &engine, const std::vector<const PagePool *> &checked)
      : engine(engine) {
    for (const PagePool *pool : checked)
      checkers.emplace_back(*pool);
  }

  /// Runs the draft model on `feed`, a chunk of a prompt, so that the draft
  /// model's cache has the chunk's tokens. `tokens` are all tokens of the
  /// sequence.
  void compute(Feed feed, const std::vector<int32_t> &tokens);
  /// Appends drafted tokens to each sequence. Afterwards the draft model's
  /// cache has all tokens of the sequence but the last drafted one.
  void guess(std::vector<DraftedSequence> sequences);

private:
  void check(const Feed &feed, const std::vector<int32_t> &tokens) {
    if (!checkers.empty())
      checkers[feed.group].check(feed, tokens);
  }

  Engine &engine;
  /// A checker for each data-parallel group of ranks. Empty if pages are not
  /// checked.
  std::vector<PageChecker> checkers;
  std::vector<float> logits;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_DRAFTER_H
