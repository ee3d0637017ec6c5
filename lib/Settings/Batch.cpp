//===- Batch.cpp - Sizes of a batch ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/Batch.h"
#include <algorithm>
#include <utility>

using namespace heddle;
using namespace heddle::config;

int64_t config::rowsOfBatch(const Settings &settings) {
  int64_t rows = 0, all = 0;
  bool overflows =
      __builtin_mul_overflow(settings.microBatch, settings.accumulate, &rows) ||
      __builtin_mul_overflow(rows, settings.data, &all);
  return overflows ? Settings::noLimit : all;
}

std::string
config::completeBatch(Settings &settings,
                      const std::function<bool(const char *)> &isGiven) {
  if (!isGiven("batch")) {
    settings.batch = rowsOfBatch(settings);
    return "batch";
  }
  for (auto [key, member] : {std::pair("micro_batch", &Settings::microBatch),
                             std::pair("accumulate", &Settings::accumulate)}) {
    if (isGiven(key))
      continue;
    settings.*member = 1;
    int64_t others = std::max<int64_t>(1, rowsOfBatch(settings));
    settings.*member = std::max<int64_t>(1, settings.batch / others);
    return key;
  }
  return "";
}
