//===- Drafter.cpp - Guesses of the next tokens ---------------------------===//
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

void Drafter::guess(std::vector<DraftedText> texts) {
  const int64_t vocab = engine.limits().vocab;
  // The first run has every text: none falls behind, guessed or not.
  while (!texts.empty()) {
    std::vector<Feed> feeds;
    for (const DraftedText &text : texts) {
      feeds.push_back(
          {text.sequence,
           {text.tokens->begin() + *text.computed, text.tokens->end()},
           *text.computed,
           *text.pages,
           /*numLogits=*/text.wanted > 0 ? 1 : 0,
           text.group});
      check(feeds.back(), *text.tokens);
    }
    logits.resize(countLogits(feeds) * vocab);
    engine.run(feeds, logits.data());
    float *next = logits.data();
    for (DraftedText &text : texts) {
      *text.computed = int64_t(text.tokens->size());
      if (text.wanted == 0)
        continue;
      // Any token is a guess.
      text.tokens->push_back(
          areFinite(next, vocab) ? text.sampler->next(next, vocab, *text.tokens)
                                 : 0);
      next += vocab;
      --text.wanted;
    }
    texts.erase(std::remove_if(
                    texts.begin(), texts.end(),
                    [](const DraftedText &text) { return text.wanted == 0; }),
                texts.end());
  }
}
