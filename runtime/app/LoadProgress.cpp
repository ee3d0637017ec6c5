//===- LoadProgress.cpp - How much of the weights is loaded ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoadProgress.h"
#include "WeightCache.h"
#include "heddle/runtime/app/ServedMemory.h"

#include <cstdio>
#include <unistd.h>

using namespace heddle::rt;
using namespace std::chrono_literals;

LoadProgress::LoadProgress(Job &job)
    : job(job), isShown(job.isFirst() && isForServing(job.plan())),
      isTerminal(isatty(STDERR_FILENO)), begin(Clock::now()), last(begin) {
  for (size_t i = 0; i < job.plan().states.size(); ++i)
    if (isOfWeights(job.plan().states[i]))
      total += job.session().state(i).numBytes();
}

LoadProgress::~LoadProgress() {
  if (hasLine)
    fputs("\n", stderr);
}

void LoadProgress::add(size_t state) {
  loaded += job.session().state(state).numBytes();
  Clock::time_point now = Clock::now();
  if (!isShown || now - last < (isTerminal ? 1s : 10s))
    return;
  last = now;
  std::chrono::duration<double> seconds = now - begin;
  fprintf(stderr, "%s%sloaded %.1f of %.1f GB of weights, %.2f GB/s%s",
          isTerminal ? "\r\033[K" : "", job.prefix(), double(loaded) / 1e9,
          double(total) / 1e9, double(loaded) / 1e9 / seconds.count(),
          isTerminal ? "" : "\n");
  fflush(stderr);
  hasLine = isTerminal;
}
