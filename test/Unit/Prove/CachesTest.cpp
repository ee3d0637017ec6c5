//===- CachesTest.cpp - Wrong caches of plans that serve are refused ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/PlanTraces.h"
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using prove::Access;
using prove::Event;
using prove::Trace;

namespace {

/// Each command that uses a cache is spoiled in every way.
class Caches : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    programs = compileServing(GetParam(), /*layers=*/3);
    ASSERT_GE(programs.size(), 3u);
    for (const Trace &program : programs)
      ASSERT_FALSE(isRefused(program));
  }

  /// Calls `visit(program, index)` for each command that fits.
  template <typename Fits, typename Visitor>
  void forEach(Fits fits, Visitor visit) {
    int found = 0;
    for (const Trace &program : programs) {
      const prove::Body &body = program.bodies.front();
      for (size_t i = 0; i < body.size(); ++i)
        if (fits(body[i])) {
          visit(program, i);
          ++found;
        }
    }
    // One in each layer.
    EXPECT_GE(found, 3 * int(programs.size()));
  }

  static const prove::State *cacheOf(const Trace &program,
                                     const Access &access) {
    for (const prove::State &state : program.states)
      if (state.isCache && access.space == prove::Space::Persistent &&
          state.range.begin <= access.begin && access.begin < state.range.end)
        return &state;
    return nullptr;
  }

  std::vector<Trace> programs;
};

bool writes(const Event &event) { return event.writesCache; }
bool reads(const Event &event) { return event.readsCache; }
bool uses(const Event &event) { return writes(event) || reads(event); }

TEST_P(Caches, AreWrittenOnce) {
  forEach(writes, [](const Trace &program, size_t i) {
    EXPECT_TRUE(isRefused(without(program, i))) << i;
    Trace twice = program;
    prove::Body &body = twice.bodies.front();
    body.insert(body.begin() + i, body[i]);
    EXPECT_TRUE(isRefused(twice)) << i;
  });
}

TEST_P(Caches, AreRead) {
  forEach(reads, [](const Trace &program, size_t i) {
    EXPECT_TRUE(isRefused(without(program, i))) << i;
    // Before the layer's tokens are there.
    size_t write = i;
    while (!program.bodies.front()[write].writesCache)
      --write;
    EXPECT_TRUE(isRefused(moved(program, i, write))) << i;
  });
}

/// A command has the cache of each other layer, in all of it or in one part.
TEST_P(Caches, AreTheLayersOwn) {
  forEach(uses, [](const Trace &program, size_t i) {
    const Event &event = program.bodies.front()[i];
    for (size_t a = 0; a < event.accesses.size(); ++a) {
      const prove::State *own = cacheOf(program, event.accesses[a]);
      for (const prove::State &other : program.states) {
        if (!own || !other.isCache || &other == own ||
            other.range.end - other.range.begin !=
                own->range.end - own->range.begin)
          continue;
        Trace wrong = program;
        for (Access &access : wrong.bodies.front()[i].accesses)
          if (access.operand == event.accesses[a].operand) {
            access.begin += other.range.begin - own->range.begin;
            access.buffer = wrong.buffers.size();
          }
        wrong.buffers.push_back(other.range);
        EXPECT_TRUE(isRefused(wrong)) << other.name << " for " << own->name;
      }
    }
  });
}

/// Pages, positions and lengths are another input of the program, or are read a
/// little further on.
TEST_P(Caches, HaveTheirPlacesFromTheInputs) {
  forEach(uses, [](const Trace &program, size_t i) {
    const Event &event = program.bodies.front()[i];
    const auto &places = program.kernels[event.kernel].places;
    EXPECT_GE(places.size(), 3u);
    for (size_t a = 0; a < event.accesses.size(); ++a) {
      if (!places.count(event.accesses[a].operand))
        continue;
      for (const prove::Port &port : program.ports) {
        const prove::Range &range = program.buffers[port.buffer];
        Trace wrong = program;
        Access &access = wrong.bodies.front()[i].accesses[a];
        if (port.buffer == access.buffer || port.isOutput ||
            range.end - range.begin < access.bytes)
          continue;
        access.buffer = port.buffer;
        access.begin = range.begin;
        EXPECT_TRUE(isRefused(wrong)) << port.name;
      }
      Trace shifted = program;
      shifted.bodies.front()[i].accesses[a].begin += 4;
      EXPECT_TRUE(isRefused(shifted));
      Trace shorter = program;
      shorter.bodies.front()[i].accesses[a].begin += 4;
      shorter.bodies.front()[i].accesses[a].bytes -= 4;
      EXPECT_TRUE(isRefused(shorter));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Caches,
    testing::Values("--max-batch 2", "--max-batch 1 --kv-type int8",
                    "--max-batch 2 --fusion none --precision bf16",
                    "--max-batch 2 --mesh tensor=2",
                    "--max-batch 2 --quantize int4 --group 8"));

} // namespace
