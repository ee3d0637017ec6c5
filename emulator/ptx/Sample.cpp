//===- Sample.cpp - Estimates a launch's counts from some blocks ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If only some of a launch's blocks are run and counted, chooses these blocks,
// and scales the counts to all blocks.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/Sample.h"
#include "emulator/ptx/SeededOrder.h"

#include <algorithm>
#include <numeric>

namespace heddle::emulator {

/// The least number of randomly chosen blocks in a sample, besides the first
/// and the last block of the launch.
static constexpr int64_t leastBetween = 30;

static uint64_t instructionsOf(const Counters &counters) {
  return std::accumulate(std::begin(counters.instructions),
                         std::end(counters.instructions), uint64_t(0));
}

/// Divides the blocks between the first and the last into `count` equal ranges,
/// and chooses one random block from each. A sample of blocks at equal
/// distances would be biased: for example, every eighth block may be the last
/// one of a row of tiles.
static std::vector<int64_t> chooseBetween(int64_t blocks, int64_t count) {
  RandomNumbers draw(/*seed=*/0, static_cast<uint64_t>(blocks));
  std::vector<int64_t> chosen;
  for (int64_t part = 0; part < count; ++part) {
    int64_t begin = 1 + (blocks - 2) * part / count;
    int64_t end = 1 + (blocks - 2) * (part + 1) / count;
    chosen.push_back(begin + static_cast<int64_t>(draw.below(end - begin)));
  }
  return chosen;
}

/// Scales counts that were made for `ran` blocks to `blocks` blocks.
static Counters scaled(Counters counters, int64_t blocks, int64_t ran) {
  auto scale = [&](uint64_t &count) {
    count = (count * static_cast<uint64_t>(blocks) + ran / 2) / ran;
  };
  for (uint64_t &kind : counters.instructions)
    scale(kind);
  for (uint64_t Counters::*count :
       {&Counters::tensorOperations, &Counters::globalRequests,
        &Counters::globalSectors, &Counters::globalBytes,
        &Counters::sharedWavefronts, &Counters::idealWavefronts})
    scale(counters.*count);
  return counters;
}

std::string countSample(const Module &module, Launch launch,
                        const GlobalMemory &memory, uint64_t budget,
                        SampledCounts &sampled) {
  Options options;
  options.checks = Checks::Light;
  options.counts = true;
  auto run = [&](std::vector<int64_t> blocks, Counters &counters) {
    launch.blocks = std::move(blocks);
    sampled.blocks += static_cast<int64_t>(launch.blocks.size());
    return launch.blocks.empty()
               ? std::string()
               : module.run(launch, memory, options, &counters);
  };
  int64_t blocks = launch.grid.count();
  Counters ends, between;
  std::string fault = run({0}, ends);
  if (!fault.empty())
    return fault;
  uint64_t ofOne = std::max<uint64_t>(instructionsOf(ends), 1);
  if (blocks > 1)
    fault = run({blocks - 1}, ends);
  int64_t others = std::max<int64_t>(blocks - 2, 0);
  int64_t count = std::min(
      others, std::max(static_cast<int64_t>(budget / ofOne), leastBetween));
  if (fault.empty())
    fault = run(chooseBetween(blocks, count), between);
  if (count > 0)
    between = scaled(between, others, count);
  sampled.counters += ends;
  sampled.counters += between;
  sampled.isExact = count == others;
  return fault;
}

} // namespace heddle::emulator
