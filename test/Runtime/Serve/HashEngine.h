//===- HashEngine.h - An engine that shows wrong pages ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_SERVE_HASHENGINE_H
#define HEDDLE_TEST_RUNTIME_SERVE_HASHENGINE_H

#include "heddle/runtime/serve/Engine.h"
#include "heddle/runtime/serve/Sampler.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

namespace heddle::rt {

/// Its logits are a hash of all tokens of the sequence that the last one sees,
/// which it reads back from the pages: a page that another sequence wrote
/// changes the text.
class HashEngine : public Engine {
public:
  /// Of 100 logits so many, `strays`, are others.
  explicit HashEngine(const EngineLimits &limits, uint64_t strays = 0)
      : known(limits), strays(strays),
        cache(limits.groups * limits.numPages * limits.pageTokens, -1) {}
  const EngineLimits &limits() const override { return known; }

  /// The logits [vocab] after `tokens`.
  static void logitsAfter(uint64_t hash, int64_t vocab, float *logits) {
    for (int64_t i = 0; i < vocab; ++i)
      logits[i] = float(mix(hash, int32_t(i)) % 1000) / 200;
  }
  static uint64_t mix(uint64_t hash, int32_t token) {
    hash = (hash ^ uint32_t(token)) * 0x9E3779B97F4A7C15;
    return hash ^ (hash >> 29);
  }
  /// The logits [vocab] after the last of `tokens`.
  static void logitsAfter(const std::vector<int32_t> &tokens, int64_t window,
                          int64_t vocab, float *logits) {
    size_t seen =
        window ? std::min(tokens.size(), size_t(window)) : tokens.size();
    uint64_t hash = 0;
    for (size_t at = tokens.size() - seen; at < tokens.size(); ++at)
      hash = mix(hash, tokens[at]);
    logitsAfter(hash, vocab, logits);
  }
  /// The text of a request by itself, from the definition.
  static std::vector<int32_t> continued(const std::vector<int32_t> &prompt,
                                        int64_t count, int64_t vocab,
                                        const SamplingOptions &sampling,
                                        int64_t window = 0) {
    std::vector<int32_t> tokens = prompt;
    std::vector<float> logits(vocab);
    while (int64_t(tokens.size()) < int64_t(prompt.size()) + count) {
      logitsAfter(tokens, window, vocab, logits.data());
      tokens.push_back(Sampler(sampling).next(logits.data(), vocab, tokens));
    }
    return {tokens.begin() + prompt.size(), tokens.end()};
  }

  void run(const std::vector<Feed> &feeds, float *logits) override {
    ++runs;
    if (onRun)
      onRun(feeds);
    std::map<int64_t, int64_t> chunks, rows; // Of each group.
    std::set<uint64_t> sequences;
    for (const Feed &feed : feeds) {
      require(sequences.insert(feed.sequence).second);
      require(feed.group >= 0 && feed.group < known.groups);
      require(++rows[feed.group] <= known.maxRows);
      int64_t count = feed.tokens.size();
      bool isRow = count <= 1 + known.maxGuesses;
      chunks[feed.group] += isRow ? 0 : count;
      require(chunks[feed.group] <= known.maxChunk);
      require(feed.numLogits <= (isRow ? count : 1) ||
              (feed.numLogits == count && count <= known.maxScored));
      int64_t end = feed.position + int64_t(feed.tokens.size());
      require(end <= known.maxContext);
      require(
          feed.pages.size() -
              std::count(feed.pages.begin(), feed.pages.end(), noPage) <=
          size_t(known.cachePages().mostOf(known.maxContext, known.maxChunk)));
      for (int64_t at = feed.position; at < end; ++at)
        held(feed, at) = feed.tokens[at - feed.position];
      // What the first token sees must be there, wanted or not.
      hashAt(feed, feed.position);
      for (int64_t at = end - feed.numLogits; at < end; ++at) {
        uint64_t hash = hashAt(feed, at);
        if (mix(hash, -1) % 100 < strays)
          hash = mix(hash, -2);
        logitsAfter(hash, known.vocab, logits);
        if (held(feed, at) == poison)
          logits[known.vocab / 2] = std::numeric_limits<float>::quiet_NaN();
        logits += known.vocab;
      }
    }
  }

  int64_t runs = 0;
  int32_t poison = -1; ///< The logits after this token are not finite.
  std::function<void(const std::vector<Feed> &)> onRun;

private:
  static void require(bool isSo) {
    if (!isSo)
      throw std::logic_error("more than the engine's limits");
  }
  int32_t &held(const Feed &feed, int64_t at) {
    int64_t page = feed.pages.at(at / known.pageTokens);
    require(page >= 0 && page < known.numPages);
    page += feed.group * known.numPages;
    return cache.at(page * known.pageTokens + at % known.pageTokens);
  }
  /// Of the tokens that the one at a position sees.
  uint64_t hashAt(const Feed &feed, int64_t at) {
    int64_t first =
        known.window ? std::max<int64_t>(at - known.window + 1, 0) : 0;
    uint64_t hash = 0;
    for (; first <= at; ++first)
      hash = mix(hash, held(feed, first));
    return hash;
  }

  EngineLimits known;
  uint64_t strays;
  std::vector<int32_t> cache;
};

} // namespace heddle::rt

#endif // HEDDLE_TEST_RUNTIME_SERVE_HASHENGINE_H
