//===- PipeTest.h - Every schedule that can be made -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_PIPE_PIPETEST_H
#define HEDDLE_TEST_UNIT_PIPE_PIPETEST_H

#include "dialects/Pipe/Schedule.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <ostream>
#include <random>

using namespace heddle::pipe;
using Kind = Action::Kind;

/// The schedule, which must be possible.
inline Schedule make(const std::string &kind, int64_t stages,
                     int64_t microBatches, int64_t chunks = 1) {
  std::string why;
  auto schedule = makeSchedule(kind, stages, microBatches, chunks, why);
  EXPECT_TRUE(schedule) << why;
  return schedule.value_or(Schedule());
}

struct Case {
  std::string kind;
  int64_t stages, microBatches, chunks;
  Schedule schedule;
};

inline std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.kind << ", " << c.stages << " stages, " << c.microBatches
            << " micro-batches, " << c.chunks << " chunks";
}

/// All kinds with up to 6 stages, 9 micro-batches (interleaved: 4 times the
/// stages) and 3 chunks.
inline std::vector<Case> allCases() {
  std::vector<Case> cases;
  auto add = [&](const char *kind, int64_t stages, int64_t microBatches,
                 int64_t chunks) {
    cases.push_back({kind, stages, microBatches, chunks,
                     make(kind, stages, microBatches, chunks)});
  };
  for (int64_t stages = 1; stages <= 6; ++stages) {
    for (const char *kind : {"gpipe", "1f1b", "zb-h1"})
      for (int64_t microBatches = 1; microBatches <= 9; ++microBatches)
        add(kind, stages, microBatches, 1);
    for (int64_t groups = 1; groups <= 4; ++groups)
      for (int64_t chunks = 2; chunks <= 3; ++chunks)
        add("interleaved", stages, groups * stages, chunks);
  }
  return cases;
}

#endif // HEDDLE_TEST_UNIT_PIPE_PIPETEST_H
