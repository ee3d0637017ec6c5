//===- CacheFit.cpp - Fit the key-value cache into a GPU ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/CacheSize.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/app/Devices.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

/// The number of ranks that use this rank's GPU. Collective.
static int64_t ranksOnDevice(const Device &device, io::Peers &ranks) {
  const std::string own = io::hostIdentity() + " " + device.serial();
  std::vector<std::string> all = ranks.exchange(own);
  return std::count(all.begin(), all.end(), own);
}

void heddle::rt::fitCache(plan::Plan &plan, const plan::Plan *draft,
                          const Device &device, const DeviceOptions &options,
                          io::Peers &ranks) {
  if (!plan::hasCacheOfDevice(plan))
    return;
  const int64_t users = ranksOnDevice(device, ranks);
  int64_t free = 0, pages = 0, beside = plan::bytesBesidePages(plan);
  int64_t pageBytes = plan::cachePageBytes(plan);
  if (draft) {
    beside += plan::bytesBesidePages(*draft);
    pageBytes += plan::cachePageBytes(*draft);
  }
  ranks.together([&] {
    free = *device.freeBytes() / users;
    auto usable = int64_t(double(free) * options.memoryShare);
    pages = std::clamp<int64_t>((usable - beside) / pageBytes, 0,
                                plan.serving.pages);
    int64_t least = plan::pagesOfSequence(plan);
    if (pages >= least)
      return;
    char share[32];
    snprintf(share, sizeof(share), "%g", options.memoryShare);
    fail("H0284",
         "a request of --max-context " +
             std::to_string(plan.serving.maxContext) + " tokens needs " +
             plan::formatExactBytes(least * pageBytes) + " of cache, besides " +
             plan::formatExactBytes(beside) +
             " of weights and values; of this " + device.model() + " " +
             plan::formatExactBytes(free) +
             " are free for this rank, and it may use " + share +
             " of them (--device-memory)",
         "end other programs on this GPU, or compile with a smaller "
         "--max-context, --kv-type int8, --quantize int4, or for several ranks "
         "(--mesh tensor=N)");
  });
  // No rank allocates memory before all ranks have asked how much is free.
  pages = -ranks.maximum(-pages);
  plan::setCachePages(plan, pages);
}
