//===- RowsTest.cpp - Rows of tables are fetched --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/HandTraces.h"
#include "test/Unit/Prove/PlanTraces.h"
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using plan::Stream;
using prove::Event;
using prove::Space;
using prove::Trace;

namespace {

/// An embedding fetches the rows of 8 tokens, of a table or of a rank's part of
/// one, and somebody adds to them.
class Rows : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    plan = compileTraces("--place parameters=file " + std::string(GetParam()),
                         2, /*vocabulary=*/4099);
    ASSERT_FALSE(plan.ranks.empty());
    trace = prove::unroll(plan.ranks.front());
    ASSERT_FALSE(isRefused(trace));
    while (rows < body().size() && body()[rows].kind != Event::Kind::CopyRows)
      ++rows;
    ASSERT_LT(rows, body().size());
    ASSERT_EQ(body()[rows].accesses.size(), 3u);
    const prove::Access &target = accessOf(trace, Space::Arena, true);
    auto reads = [&](const prove::Access &access) {
      return !access.writes && access.space == Space::Arena &&
             access.begin < target.begin + target.bytes &&
             target.begin < access.begin + access.bytes;
    };
    for (reader = rows + 1; reader < body().size(); ++reader)
      for (const prove::Access &access : body()[reader].accesses)
        if (reads(access))
          return;
    FAIL() << "nobody reads the rows";
  }

  const prove::Body &body() const { return trace.bodies.front(); }

  /// What the copy of rows writes, or reads of states.
  prove::Access &accessOf(Trace &of, Space space, bool writes) const {
    for (prove::Access &access : of.bodies.front()[rows].accesses)
      if (access.space == space && access.writes == writes)
        return access;
    ADD_FAILURE() << "no such access";
    return of.bodies.front()[rows].accesses.front();
  }

  PlanTraces plan;
  Trace trace;
  size_t rows = 0, reader = 0;
};

} // namespace

INSTANTIATE_TEST_SUITE_P(, Rows,
                         ::testing::Values("", "--mesh tensor=2",
                                           "--mesh tensor=2,pipe=2"));

TEST_P(Rows, ComeLate) {
  EXPECT_TRUE(isRefused(moved(trace, rows, reader + 1)));
}

TEST_P(Rows, AreWaitedForByNobody) {
  EXPECT_TRUE(isRefused(withoutJoins(trace, Stream::Compute, rows, reader)));
}

TEST_P(Rows, AreLeftOut) { EXPECT_TRUE(isRefused(without(trace, rows))); }

TEST_P(Rows, GoToAnotherBuffer) {
  for (int64_t bytes : {-64, 64}) {
    Trace other = trace;
    accessOf(other, Space::Arena, true).begin += bytes;
    EXPECT_TRUE(isRefused(other)) << bytes;
  }
}

TEST_P(Rows, AreOfNoTable) {
  for (int64_t bytes : {-64, 4, 64, 4096}) {
    Trace other = trace;
    accessOf(other, Space::Persistent, false).begin += bytes;
    EXPECT_TRUE(isRefused(other)) << bytes;
  }
}

/// A table that is being updated: what is on file is old until it is stored.
TEST(RowsOfStates, AreReadBeforeTheyAreStored) {
  for (bool isStored : {true, false}) {
    TraceWriter writer;
    int32_t table = writer.state(0), window = writer.buffer(0);
    int32_t ids = writer.buffer(64), rows = writer.buffer(128);
    prove::State state;
    state.name = "table";
    state.range = {0, 64};
    state.lasts = state.isOffloaded = true;
    writer.trace.states.push_back(state);
    auto copy = [&](int32_t source, int32_t target) {
      Event &event = writer.append(Event::Kind::Copy, "a copy");
      event.accesses = {writer.access(source, false, 1),
                        writer.access(target, true, 0)};
    };
    copy(table, window);
    writer.launch({window}, {window});
    writer.trace.bodies[0].back().updates = true;
    if (isStored)
      copy(window, table);
    Event &event = writer.append(Event::Kind::CopyRows, "a copy of rows");
    event.accesses = {writer.access(ids, false, 2),
                      writer.access(table, false, 1),
                      writer.access(rows, true, 0)};
    if (!isStored)
      copy(window, table);
    EXPECT_EQ(prove::checkStateTiles(writer.trace).has_value(), !isStored);
  }
}
