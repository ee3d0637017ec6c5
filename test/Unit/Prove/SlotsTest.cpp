//===- SlotsTest.cpp - Activations are stored, then fetched ---------------===//
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
using plan::Stream;
using prove::Access;
using prove::Event;
using prove::Space;
using prove::Trace;

namespace {

Access &accessOf(Event &copy, bool writes) {
  return copy.accesses[copy.accesses[1].writes == writes];
}

/// The steps of models whose activations are on file, in one stage or two, one
/// command after the other.
class Slots : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    plan = compileTraces(std::string(GetParam()) +
                             " --place activations=file --micro-batch 8",
                         5);
    ASSERT_FALSE(plan.ranks.empty());
    trace = prove::unroll(plan.ranks.front());
    for (size_t i = 0; i < body().size(); ++i) {
      if (body()[i].kind != Event::Kind::Copy ||
          !plan::copiesBeside(body()[i].stream))
        continue;
      bool isStore = accessOf(body()[i], true).space == Space::Persistent;
      (isStore ? stores : fetches).push_back(i);
    }
    ASSERT_GE(stores.size(), 6u);
    ASSERT_EQ(stores.size(), fetches.size());
    ASSERT_FALSE(isRefused(trace));
  }

  prove::Body &body() { return trace.bodies.front(); }

  /// The fetch of what is stored there.
  size_t fetchOf(size_t store) {
    int64_t slot = accessOf(body()[store], true).begin;
    for (size_t fetch : fetches)
      if (fetch > store && accessOf(body()[fetch], false).begin == slot)
        return fetch;
    ADD_FAILURE() << "nothing fetches what is stored by event " << store;
    return store;
  }
  /// The first event behind a fetch that reads what it fetches.
  size_t useOf(size_t fetch) {
    const Access &there = accessOf(body()[fetch], true);
    for (size_t i = fetch + 1; i < body().size(); ++i)
      for (const Access &access : body()[i].accesses)
        if (!access.writes && access.space == Space::Arena &&
            access.buffer == there.buffer)
          return i;
    ADD_FAILURE() << "nothing uses what is fetched by event " << fetch;
    return fetch;
  }
  /// Gives an access the place of another one.
  static void put(Access &access, const Access &place) {
    access.begin = place.begin;
    access.buffer = place.buffer;
  }

  PlanTraces plan;
  Trace trace;
  std::vector<size_t> stores, fetches;
};

TEST_P(Slots, AFetchThatComesLate) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(isRefused(moved(trace, fetch, useOf(fetch) + 1))) << fetch;
}

TEST_P(Slots, AFetchThatNobodyWaitsFor) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(
        isRefused(withoutJoins(trace, Stream::Compute, fetch, useOf(fetch))))
        << fetch;
}

TEST_P(Slots, AFetchBeforeTheStore) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(moved(trace, fetchOf(store), store))) << store;
}

TEST_P(Slots, AStoreThatComesEarly) {
  for (size_t store : stores) {
    // Before what makes the value.
    const Access &source = accessOf(body()[store], false);
    size_t made = store;
    for (size_t i = store; i-- > 0;)
      for (const Access &access : body()[i].accesses)
        if (access.writes && access.buffer == source.buffer &&
            body()[i].kind != Event::Kind::Fresh)
          made = i;
    ASSERT_LT(made, store);
    EXPECT_TRUE(isRefused(moved(trace, store, made))) << store;
  }
}

TEST_P(Slots, AStoreThatIsLeftOut) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(without(trace, store))) << store;
}

TEST_P(Slots, AFetchThatIsLeftOut) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(isRefused(without(trace, fetch))) << fetch;
}

/// Two values that wait at the same time have one slot: of one micro-batch, or
/// of two.
TEST_P(Slots, ASlotThatIsReusedTooSoon) {
  size_t reused = 0;
  for (size_t number = 1; number < stores.size(); ++number) {
    size_t store = stores[number], before = stores[number - 1];
    if (fetchOf(before) < store)
      continue;
    Trace other = trace;
    const Access &slot = accessOf(body()[before], true);
    put(accessOf(other.bodies.front()[store], true), slot);
    put(accessOf(other.bodies.front()[fetchOf(store)], false), slot);
    EXPECT_TRUE(isRefused(other)) << number;
    ++reused;
  }
  EXPECT_GE(reused, 2u);
}

/// Another value is fetched in its place, which is there.
TEST_P(Slots, AStoreThatNobodyFetches) {
  int count = 0;
  for (size_t number = 1; number < stores.size(); ++number) {
    size_t store = stores[number], before = stores[number - 1];
    if (fetchOf(before) < fetchOf(store))
      continue;
    Trace other = trace;
    put(accessOf(other.bodies.front()[fetchOf(store)], false),
        accessOf(body()[before], true));
    EXPECT_TRUE(isRefused(other)) << number;
    ++count;
  }
  EXPECT_GE(count, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, Slots,
    ::testing::Values("--accumulate 2 --recompute full",
                      "--mesh pipe=2 --accumulate 3 --recompute full"));

} // namespace
