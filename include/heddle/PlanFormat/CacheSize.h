//===- CacheSize.h - The size of the key-value cache ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pages of a plan's key-value cache. A plan for a GPU may leave their
// number to the start of the binary, which knows how much memory is free.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_CACHESIZE_H
#define HEDDLE_PLANFORMAT_CACHESIZE_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

/// A key of `Plan::strategy`. If the key is present, the plan's cache has room
/// for all sequences that it may generate at a time, and the binary may reduce
/// it when it starts (`--kv-cache auto` on a GPU).
inline constexpr char cacheOfDeviceKey[] = "cache_of_device";
bool hasCacheOfDevice(const Plan &plan);

/// The bytes of the cache on a rank, and of one of its pages: the keys and
/// values of `cachePageTokens` positions in all layers.
int64_t cacheBytes(const Plan &plan);
int64_t cachePageBytes(const Plan &plan);

/// The bytes that the selected stage needs on a GPU besides the pages of its
/// cache, with the unused bytes that `setCachePages` can leave.
int64_t bytesBesidePages(const Plan &plan);

/// The number of pages that a sequence of `Serving::maxContext` tokens needs.
int64_t pagesOfSequence(const Plan &plan);

/// Makes the cache of the selected stage have `pages` pages, at most as many as
/// it has. The states after it in memory move forward.
void setCachePages(Plan &plan, int64_t pages);

/// What to change if `available` bytes of a GPU's memory are too few for the
/// selected stage of the plan.
std::string helpForDevice(const Plan &plan, int64_t available);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_CACHESIZE_H
