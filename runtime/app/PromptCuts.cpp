//===- PromptCuts.cpp - Prompts as runs of programs -----------------------===//
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

PromptCuts::PromptCuts(const std::vector<int64_t> &sizes)
    : first(sizes.back() + 1) {
  std::vector<int64_t> costs(first.size());
  for (int64_t tokens = 1; tokens <= most(); ++tokens) {
    costs[tokens] = std::numeric_limits<int64_t>::max();
    // Of equal costs that with the largest program: it has the fewest runs.
    for (size_t i = sizes.size(); i-- > 0;) {
      int64_t rest = std::max<int64_t>(tokens - sizes[i], 0);
      int64_t cost = costOf(sizes[i]) + costs[rest];
      if (cost < costs[tokens]) {
        costs[tokens] = cost;
        first[tokens] = i;
      }
    }
  }
}
