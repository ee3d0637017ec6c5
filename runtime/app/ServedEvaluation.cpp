//===- ServedEvaluation.cpp - Losses of binaries that serve ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ServedEvaluation.h"
#include "heddle/runtime/app/Masking.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

ServedEvaluation::ServedEvaluation(Job &job, const std::string &file,
                                   int64_t steps, const MaskOptions &mask)
    : job(job), engine(job),
      data(file, {/*rows=*/1, job.plan().seq, job.plan().vocabSize}),
      rows(steps > 0 ? std::min(steps, data.batches()) : data.batches()),
      logits(engine.scoreTokens() * engine.limits().vocab) {
  Masking::of(job.plan(), mask);
}

/// Returns -log of the probability of `label`.
static double lossOf(const float *logits, int64_t vocab, int32_t label) {
  double largest = *std::max_element(logits, logits + vocab), sum = 0;
  for (int64_t i = 0; i < vocab; ++i)
    sum += std::exp(logits[i] - largest);
  return std::log(sum) + largest - logits[label];
}

double ServedEvaluation::rowLoss(int64_t row) {
  const int64_t seq = job.plan().seq, vocab = engine.limits().vocab;
  std::vector<int32_t> inputs(seq), labels(seq);
  job.ranks().together([&] {
    if (row >= rows)
      return;
    data.read(row, {{0, 0, seq}}, DataFeed::What::Inputs, inputs.data());
    data.read(row, {{0, 0, seq}}, DataFeed::What::Labels, labels.data());
  });
  Feed feed;
  feed.pages = engine.limits().pagesOfSequence(seq);
  feed.group = engine.group();
  double sum = 0;
  while (row < rows && feed.position < seq) {
    int64_t count = std::min(engine.scoreTokens(), seq - feed.position);
    auto first = inputs.begin() + feed.position;
    feed.tokens.assign(first, first + count);
    engine.score(feed, logits.data());
    for (int64_t i = 0; i < count; ++i)
      sum += lossOf(&logits[i * vocab], vocab, labels[feed.position + i]);
    feed.position += count;
  }
  return sum;
}

/// With n groups of ranks, each a replica of the model, group i evaluates the
/// rows i, i + n, i + 2 n, ... The rows' losses are added in the order of rows,
/// so that the result is bit-identical for any number of groups.
double ServedEvaluation::meanLoss() {
  const int64_t groups = engine.limits().groups;
  std::string own;
  for (int64_t first = 0; first < rows; first += groups) {
    double loss = rowLoss(first + engine.group());
    own.append(reinterpret_cast<const char *>(&loss), sizeof loss);
  }
  std::vector<std::string> found = job.ranks().exchange(own);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rank = engine.logitsRank(row % groups);
    double loss = NAN;
    found[rank].copy(reinterpret_cast<char *>(&loss), sizeof loss,
                     row / groups * sizeof loss);
    sum += loss;
  }
  return sum / double(tokens());
}
