//===- PromptCuts.cpp - Divide prompts over compiled programs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/PromptCuts.h"

#include <algorithm>
#include <limits>

using namespace heddle::rt;

PromptCuts::PromptCuts(const std::vector<Program> &programs)
    : first(programs.back().tokens + 1) {
  std::vector<double> costs(first.size());
  for (int64_t tokens = 1; tokens <= most(); ++tokens) {
    costs[tokens] = std::numeric_limits<double>::infinity();
    // Try the largest program first, so that it is chosen among programs of
    // equal cost: it leaves the fewest tokens for other programs.
    for (size_t i = programs.size(); i-- > 0;) {
      int64_t rest = std::max<int64_t>(tokens - programs[i].tokens, 0);
      double cost = programs[i].cost + costs[rest];
      if (cost < costs[tokens]) {
        costs[tokens] = cost;
        first[tokens] = i;
      }
    }
  }
}
