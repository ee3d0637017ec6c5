//===- Eval.cpp - The verb eval -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ServedEvaluation.h"
#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"

#include <cmath>

using namespace heddle;
using namespace heddle::rt;

int heddle::rt::runEval(const EvalOptions &options, Ranks &ranks) {
  Job job(options.job, ranks);
  std::unique_ptr<Evaluation> evaluation;
  std::unique_ptr<ServedEvaluation> served;
  ranks.together([&] {
    io::requireApart({{"--data", io::TokenSource::parse(options.data).path},
                      {"--inputs", options.inputs}},
                     {{"--log", options.log}});
    if (!job.plan().findProgram(plan::ProgramKind::Eval) &&
        options.inputs.empty())
      served = std::make_unique<ServedEvaluation>(job, options.data,
                                                  options.steps, options.mask);
    else if (options.inputs.empty())
      evaluation = std::make_unique<Evaluation>(job, options.data,
                                                options.steps, options.mask);
    else
      evaluation = std::make_unique<Evaluation>(
          job,
          std::make_unique<InputFile>(options.inputs, job.plan(),
                                      plan::ProgramKind::Eval),
          options.steps);
  });
  loadWeights(job, options.job);
  double loss = served ? served->meanLoss() : evaluation->meanLoss();
  int64_t tokens = served ? served->tokens() : evaluation->labels();
  // All ranks have the same loss, so all of them fail.
  if (!std::isfinite(loss))
    ranks.together([] {
      fail("H0410", "the loss is not finite",
           "train again from a checkpoint whose loss is finite, with a lower "
           "learning rate");
    });
  if (!job.isFirst())
    return 0;
  double perplexity = std::exp(loss);
  JsonLine line("eval");
  line.add("step", int64_t(0))
      .add("loss", loss)
      .add("perplexity", perplexity)
      .add("tokens", tokens);
  if (!options.log.empty()) {
    RunLog log;
    log.open(options.log, /*append=*/false);
    log.write(line);
  }
  if (options.json)
    printf("%s\n", line.text().c_str());
  else
    printf("loss %.9g\nperplexity %.9g\ntokens %lld\n", loss, perplexity,
           static_cast<long long>(tokens));
  return 0;
}
