//===- Condition.cpp - What a step may skip -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Condition.h"
#include "heddle/runtime/core/Philox.h"

#include <cmath>
#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;
using namespace heddle::plan;

double DropProgress::at(int64_t step) const {
  return (1 - theta) * std::exp(-gamma * double(step)) + theta;
}

double Condition::keepProbability(int64_t step) const {
  return 1 - rate * (progress ? 1 - progress->at(step) : 1);
}

bool Condition::holds(uint64_t seed, int64_t step) const {
  // Other random numbers of a run, such as those of dropout, have the index of
  // an element in place of the hash, and other streams.
  constexpr uint32_t stream = 0x1a7e2d20;
  uint64_t hash = XXH3_64bits(path.data(), path.size());
  rt::PhiloxWords words = rt::philox(seed, hash, uint32_t(step), stream);
  uint64_t bits = uint64_t(words[0]) << 21 ^ words[1] >> 11;
  return double(bits) * 0x1p-53 < keepProbability(step);
}

void plan::to_json(nlohmann::json &target, const Condition &condition) {
  target = {{"name", condition.name},
            {"path", condition.path},
            {"rate", condition.rate},
            {"flops", condition.flops}};
  if (condition.progress) {
    target["theta"] = condition.progress->theta;
    target["gamma"] = condition.progress->gamma;
  }
}

void plan::from_json(const nlohmann::json &source, Condition &condition) {
  source.at("name").get_to(condition.name);
  source.at("path").get_to(condition.path);
  source.at("rate").get_to(condition.rate);
  source.at("flops").get_to(condition.flops);
  if (source.contains("theta"))
    condition.progress = {source.at("theta").get<double>(),
                          source.at("gamma").get<double>()};
}
