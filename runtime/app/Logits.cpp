//===- Logits.cpp - The verb logits ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `logits` prints or saves the logits of the tokens of a prompt.
//
//===----------------------------------------------------------------------===//

#include "CompiledEngine.h"
#include "ModelText.h"
#include "Prompt.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

int heddle::rt::runLogits(const LogitsOptions &options, Ranks &ranks) {
  Job job(options.job, ranks);
  std::unique_ptr<CompiledEngine> engine;
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  size_t most = 1;
  ranks.together([&] {
    io::requireApart({{"--weights", readDirectory(job.plan(), options.job)}},
                     {{"-o", options.output}});
    engine = std::make_unique<CompiledEngine>(job);
    if (!options.decode)
      most = size_t(engine->scoreTokens());
    if (options.prompt.empty())
      tokens = parseIds(options.promptIds);
    else
      tokens = requireTokenizer(job.plan(), options.job,
                                "give the prompt as tokens: --prompt-ids 1,2,3")
                   ->encodePrompt(options.prompt);
    checkPrompt(tokens, job.plan().vocabSize,
                "give a text with --prompt or tokens with --prompt-ids");
    checkPromptLength(tokens, engine->limits().maxContext);
    logits.resize(tokens.size() * engine->limits().vocab);
  });
  loadWeights(job, options.job);
  Feed feed;
  feed.pages = engine->limits().pagesOfSequence(int64_t(tokens.size()));
  feed.numLogits = 1;
  for (size_t first = 0; first < tokens.size(); first += most) {
    size_t count = std::min(most, tokens.size() - first);
    feed.tokens.assign(tokens.begin() + first, tokens.begin() + first + count);
    feed.position = int64_t(first);
    float *rows = logits.data() + first * engine->limits().vocab;
    if (options.decode) {
      engine->compute({feed}, rows);
      engine->gatherLogits({feed}, rows);
    } else {
      engine->score(feed, rows);
    }
  }
  ranks.together([&] {
    if (job.isFirst())
      io::writeSafetensors(options.output,
                           {{"logits",
                             "F32",
                             {int64_t(tokens.size()), engine->limits().vocab},
                             logits.data(),
                             nullptr}});
  });
  return 0;
}
