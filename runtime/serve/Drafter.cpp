//===- Drafter.cpp - Draft tokens for speculative decoding ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Drafter.h"

#include <algorithm>

using namespace heddle::rt;

void Drafter::compute(Feed feed, const std::vector<int32_t> &tokens) {
  feed.numLogits = 0;
  check(feed, tokens);
  engine.run({feed}, nullptr);
}

void Drafter::guess(std::vector<DraftedSequence> sequences) {
  const int64_t vocab = engine.limits().vocab;
  // The first run has all sequences, also those without tokens to draft, so
  // that the draft's cache stays up to date.
  while (!sequences.empty()) {
    std::vector<Feed> feeds;
    for (const DraftedSequence &seq : sequences) {
      feeds.push_back({seq.id,
                       {seq.tokens->begin() + *seq.computed, seq.tokens->end()},
                       *seq.computed,
                       *seq.pages,
                       /*numLogits=*/seq.wanted > 0 ? 1 : 0,
                       seq.group});
      check(feeds.back(), *seq.tokens);
    }
    logits.resize(countLogits(feeds) * vocab);
    engine.run(feeds, logits.data());
    float *next = logits.data();
    for (DraftedSequence &seq : sequences) {
      *seq.computed = int64_t(seq.tokens->size());
      if (seq.wanted == 0)
        continue;
      // If logits are not finite, any token will do: a wrong guess is only
      // rejected.
      seq.tokens->push_back(areFinite(next, vocab)
                                ? seq.sampler->next(next, vocab, *seq.tokens)
                                : 0);
      next += vocab;
      --seq.wanted;
    }
    sequences.erase(std::remove_if(sequences.begin(), sequences.end(),
                                   [](const DraftedSequence &seq) {
                                     return seq.wanted == 0;
                                   }),
                    sequences.end());
  }
}
