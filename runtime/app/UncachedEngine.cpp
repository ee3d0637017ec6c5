//===- UncachedEngine.cpp - Generation without a cache --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UncachedEngine.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/io/Safetensors.h"

#include <cstring>

using namespace heddle;
using namespace heddle::rt;

static constexpr int64_t rows = 8, tokensOfPage = 16;

UncachedEngine::UncachedEngine(Job &job)
    : job(job), program(job.program(plan::ProgramKind::Generate)),
      inputs(job.session(), program),
      output(program.output(plan::PortRole::Logits)) {
  most.vocab = job.plan().vocabSize;
  most.maxRows = rows;
  most.maxContext = batchOf(job.plan(), plan::ProgramKind::Generate).seq;
  most.maxChunk = most.maxContext;
  most.pageTokens = tokensOfPage;
  most.numPages = rows * ((most.maxContext + tokensOfPage - 1) / tokensOfPage);
  cache.resize(most.numPages * tokensOfPage);
}

const std::vector<float> &
UncachedEngine::compute(const std::vector<int32_t> &tokens) {
  job.ranks().beginStep(++numRuns);
  inputs.fill([&](int64_t index, DataFeed::What) {
    return index < int64_t(tokens.size()) ? tokens[index] : 0;
  });
  if (const Value *position = program.input(plan::PortRole::Position)) {
    *job.session().at<int32_t>(*position) = int32_t(tokens.size()) - 1;
    job.session().store(*position);
  }
  job.session().run(program);
  values.resize(most.vocab);
  if (output)
    io::convertElements(job.session().load(*output), plan::nameOf(output->type),
                        values.data(), "F32", most.vocab);
  // Find the first rank with logits, since rank 0 may belong to a pipeline
  // stage without them.
  Ranks &ranks = job.ranks();
  int64_t owner = ranks.size() - 1 -
                  ranks.maximum(output ? ranks.size() - 1 - ranks.rank() : -1);
  if (owner == 0)
    return values;
  std::string sent;
  size_t bytes = values.size() * sizeof(float);
  if (ranks.rank() == owner)
    sent.assign(reinterpret_cast<const char *>(values.data()), bytes);
  std::memcpy(values.data(), ranks.exchange(sent)[owner].data(), bytes);
  return values;
}

/// Serializes tokens for the ranks. There is always a token, because an empty
/// message means that there is nothing more to compute.
static std::string pack(const std::vector<int32_t> &tokens) {
  return {reinterpret_cast<const char *>(tokens.data()),
          tokens.size() * sizeof(int32_t)};
}

void UncachedEngine::run(const std::vector<Feed> &feeds, float *logits) {
  for (const Feed &feed : feeds) {
    auto held = [&](int64_t at) -> int32_t & {
      return cache[feed.pages[at / tokensOfPage] * tokensOfPage +
                   at % tokensOfPage];
    };
    std::vector<int32_t> tokens;
    for (int64_t at = 0; at < feed.position; ++at)
      tokens.push_back(held(at));
    for (int32_t token : feed.tokens) {
      held(tokens.size()) = token;
      tokens.push_back(token);
    }
    if (feed.numLogits == 0)
      continue;
    job.ranks().tell(pack(tokens));
    const std::vector<float> &found = compute(tokens);
    logits = std::copy(found.begin(), found.end(), logits);
  }
}

void UncachedEngine::follow() {
  for (;;) {
    std::string told = job.ranks().tell();
    if (told.empty())
      return;
    std::vector<int32_t> tokens(told.size() / sizeof(int32_t));
    std::memcpy(tokens.data(), told.data(), told.size());
    compute(tokens);
  }
}

void UncachedEngine::finish() { job.ranks().tell(); }
