//===- StateTilesTest.cpp - Tiles of states in traces ---------------------===//
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
using prove::Event;
using prove::Space;
using prove::Trace;

namespace {

const prove::Access &targetOf(const Event &copy) {
  return copy.accesses[copy.accesses[1].writes];
}
const prove::Access &sourceOf(const Event &copy) {
  return copy.accesses[!copy.accesses[1].writes];
}
bool isFetch(const Event &event) {
  return event.kind == Event::Kind::Copy && event.stream == Stream::Copy &&
         sourceOf(event).space == Space::Persistent;
}
bool isStore(const Event &event, Stream stream = Stream::Store) {
  return event.kind == Event::Kind::Copy && event.stream == stream &&
         targetOf(event).space == Space::Persistent;
}

/// A step that fetches and stores, one command after the other.
class Swapped : public ::testing::Test {
protected:
  void load(const std::string &flags, int layers) {
    plan = compileTraces(flags + " --sub-group-size 1024", layers);
    ASSERT_FALSE(plan.ranks.empty());
    trace = prove::unroll(plan.ranks.front());
    for (size_t i = 0; i < body().size(); ++i) {
      if (isFetch(body()[i]))
        fetches.push_back(i);
      if (isStore(body()[i]))
        stores.push_back(i);
    }
    ASSERT_GE(fetches.size(), 8u);
    ASSERT_GE(stores.size(), 3u);
    ASSERT_FALSE(isRefused(trace));
  }

  prove::Body &body() { return trace.bodies.front(); }

  /// The launch that updates the tile in these bytes, behind `from` if it is
  /// a fetch, before it if it is a store.
  size_t updateOf(const prove::Access &tile, size_t from, int step) {
    for (size_t i = from; i < body().size(); i += step)
      if (body()[i].updates)
        for (const prove::Access &access : body()[i].accesses)
          if (access.writes && access.space == Space::Arena &&
              access.begin == tile.begin)
            return i;
    ADD_FAILURE() << "no update of that tile";
    return from;
  }

  /// The launch that first reads what was fetched.
  size_t readerOf(size_t fetch) {
    const prove::Access &tile = targetOf(body()[fetch]);
    for (size_t i = fetch + 1; i < body().size(); ++i)
      for (const prove::Access &access : body()[i].accesses)
        if (!access.writes && access.space == Space::Arena &&
            access.begin < tile.begin + tile.bytes &&
            tile.begin < access.begin + access.bytes)
          return i;
    ADD_FAILURE() << "nothing reads that tile";
    return fetch;
  }

  void refuseOtherPlaces() {
    for (size_t store : stores)
      for (int64_t bytes : {-4096, 4096}) {
        Trace other = trace;
        Event &event = other.bodies.front()[store];
        event.accesses[event.accesses[1].writes].begin += bytes;
        EXPECT_TRUE(isRefused(other)) << store;
      }
  }

  PlanTraces plan;
  Trace trace;
  std::vector<size_t> fetches, stores;
};

/// Moments are on file, in several tiles.
class StateTiles : public Swapped {
protected:
  void SetUp() override {
    load("--place optimizer=file", 1);
    ASSERT_EQ(fetches.size(), stores.size());
  }
};

constexpr const char *ofParameters = "--place parameters=file --precision bf16";

/// What computation reads is on file: bf16 copies of parameters, which each
/// update makes anew. Or gradients are, between two micro-batches and until the
/// norm is known: layers share pages of the file.
class Streams : public Swapped,
                public ::testing::WithParamInterface<const char *> {
protected:
  void SetUp() override { load(GetParam(), 3); }

  /// The last command before a store that writes bytes of what is stored.
  size_t writerOf(size_t store) {
    const prove::Access &source = sourceOf(body()[store]);
    for (size_t i = store; i-- > 0;)
      for (const prove::Access &access : body()[i].accesses)
        if (access.writes && access.space == Space::Arena &&
            access.begin < source.begin + source.bytes &&
            source.begin < access.begin + access.bytes)
          return i;
    ADD_FAILURE() << "nothing writes what is stored";
    return store;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Elsewhere, Streams,
    ::testing::Values(ofParameters,
                      "--place gradients=file --micro-batch 1 --accumulate 2"));

/// Moments and fp32 parameters are in the host's memory, and its cores update
/// them: gradients go there, and bf16 copies come back.
class OnHost : public ::testing::Test {
protected:
  void SetUp() override {
    plan = compileTraces("--place optimizer=host --host-updates 1 --precision "
                         "bf16 --sub-group-size 1024",
                         1);
    ASSERT_FALSE(plan.ranks.empty());
    trace = prove::unroll(plan.ranks.front());
    for (size_t i = 0; i < body().size(); ++i) {
      if (body()[i].stream == Stream::Host &&
          body()[i].kind == Event::Kind::Launch)
        updates.push_back(i);
      if (isStore(body()[i], Stream::Copy))
        returns.push_back(i);
    }
    ASSERT_GE(updates.size(), 3u);
    ASSERT_EQ(returns.size(), updates.size());
    ASSERT_FALSE(isRefused(trace));
  }

  prove::Body &body() { return trace.bodies.front(); }

  PlanTraces plan;
  Trace trace;
  std::vector<size_t> updates, returns;
};

/// Behind the update before, which waited for other bytes.
TEST_F(OnHost, AGradientThatNobodyWaitsFor) {
  for (size_t number = 0; number < updates.size(); ++number) {
    size_t before = number == 0 ? 0 : updates[number - 1];
    EXPECT_TRUE(
        isRefused(withoutJoins(trace, Stream::Host, before, updates[number])))
        << number;
  }
}

TEST_F(OnHost, AReturnThatDoesNotWaitForTheUpdate) {
  for (size_t number = 0; number < updates.size(); ++number)
    EXPECT_TRUE(isRefused(
        withoutJoins(trace, Stream::Copy, updates[number], returns[number])))
        << number;
}

TEST_F(OnHost, AReturnThatIsLeftOut) {
  for (size_t back : returns)
    EXPECT_TRUE(isRefused(without(trace, back))) << back;
}

TEST_F(OnHost, AReturnOfOtherBytes) {
  for (size_t back : returns) {
    Trace other = trace;
    Event &event = other.bodies.front()[back];
    event.accesses[!event.accesses[1].writes].begin += 64;
    EXPECT_TRUE(isRefused(other)) << back;
  }
}

TEST_F(OnHost, AStepThatEndsBeforeTheReturns) {
  EXPECT_TRUE(isRefused(
      withoutJoins(trace, Stream::Compute, updates.back(), body().size())));
}

/// What is on its way to the host is written again.
TEST_F(OnHost, ASlotThatIsReusedTooSoon) {
  for (size_t number = 1; number < updates.size(); ++number) {
    Trace other = trace;
    const prove::Access *before = nullptr, *own = nullptr;
    for (const prove::Access &access : body()[updates[number - 1]].accesses)
      if (!access.writes && access.space == Space::Arena && access.bytes > 4)
        before = &access;
    for (const prove::Access &access : body()[updates[number]].accesses)
      if (!access.writes && access.space == Space::Arena && access.bytes > 4)
        own = &access;
    for (Event &event : other.bodies.front())
      for (prove::Access &access : event.accesses)
        if (access.buffer == own->buffer) {
          access.buffer = before->buffer;
          access.begin = before->begin;
        }
    EXPECT_TRUE(isRefused(other)) << number;
  }
}

TEST_F(StateTiles, AFetchThatComesLate) {
  for (size_t fetch : fetches) {
    size_t update = updateOf(targetOf(body()[fetch]), fetch, 1);
    EXPECT_TRUE(isRefused(moved(trace, fetch, update + 1))) << fetch;
  }
}

TEST_F(StateTiles, AFetchThatNobodyWaitsFor) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(
        isRefused(withoutJoins(trace, Stream::Compute, fetch,
                               updateOf(targetOf(body()[fetch]), fetch, 1))))
        << fetch;
}

TEST_F(StateTiles, AStoreThatComesEarly) {
  for (size_t store : stores) {
    size_t update = updateOf(sourceOf(body()[store]), store, -1);
    EXPECT_TRUE(isRefused(moved(trace, store, update))) << store;
  }
}

TEST_F(StateTiles, AStoreThatDoesNotWaitForTheUpdate) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(
        withoutJoins(trace, Stream::Store,
                     updateOf(sourceOf(body()[store]), store, -1), store)))
        << store;
}

TEST_F(StateTiles, AStoreThatIsLeftOut) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(without(trace, store))) << store;
}

TEST_F(StateTiles, AStoreToAnotherPlace) { refuseOtherPlaces(); }

TEST_F(StateTiles, ASlotThatIsReusedTooSoon) {
  for (size_t number = 2; number < fetches.size(); ++number) {
    // The slot of the tile before, which is not updated yet.
    Trace other = trace;
    Event &event = other.bodies.front()[fetches[number]];
    const prove::Access &before = targetOf(body()[fetches[number - 1]]);
    prove::Access &target = event.accesses[event.accesses[1].writes];
    target.begin = before.begin;
    target.buffer = before.buffer;
    EXPECT_TRUE(isRefused(other)) << number;
  }
}

/// Each pair of neighbours, source for source and, where they are stored,
/// target for target. Returns how many there are.
int exchangeNeighbours(const Trace &trace, const std::vector<size_t> &fetches,
                       const std::vector<size_t> &stores) {
  int count = 0;
  auto exchange = [](Trace &other, size_t a, size_t b, bool writes) {
    prove::Body &body = other.bodies.front();
    auto &first = body[a].accesses[body[a].accesses[1].writes == writes];
    auto &second = body[b].accesses[body[b].accesses[1].writes == writes];
    std::swap(first.begin, second.begin);
    std::swap(first.buffer, second.buffer);
  };
  for (size_t i = 0; i + 1 < fetches.size(); ++i) {
    const prove::Body &body = trace.bodies.front();
    size_t a = fetches[i], b = fetches[i + 1];
    const prove::Access &first = sourceOf(body[a]), &second = sourceOf(body[b]);
    if (first.begin == second.begin)
      continue;
    Trace other = trace;
    exchange(other, a, b, /*writes=*/false);
    EXPECT_TRUE(isRefused(other))
        << i << ": " << first.begin << ", " << first.bytes << " and "
        << second.begin << ", " << second.bytes;
    // They are stored where they came from.
    for (size_t from : stores)
      for (size_t to : stores)
        if (targetOf(body[from]).begin == first.begin &&
            targetOf(body[to]).begin == second.begin) {
          exchange(other, from, to, /*writes=*/true);
          EXPECT_TRUE(isRefused(other)) << i;
        }
    Trace slots = trace;
    exchange(slots, a, b, /*writes=*/true);
    EXPECT_TRUE(isRefused(slots)) << i;
    ++count;
  }
  return count;
}

TEST_F(StateTiles, TilesThatAreExchanged) {
  std::vector<size_t> ofOne; // Of a moment: there are two of them.
  for (size_t i = 0; i < fetches.size(); i += 2)
    ofOne.push_back(fetches[i]);
  EXPECT_GE(exchangeNeighbours(trace, ofOne, stores), 2);
}

TEST_F(StateTiles, AnotherTileOfTheGradient) {
  int count = 0;
  for (size_t i = 0; i < body().size(); ++i)
    for (size_t j = 0; j < body()[i].accesses.size(); ++j) {
      const prove::Access &access = body()[i].accesses[j];
      if (!body()[i].updates || access.writes || access.bytes < 4096 ||
          access.space != Space::Persistent)
        continue;
      Trace other = trace;
      other.bodies.front()[i].accesses[j].begin += 256;
      EXPECT_TRUE(isRefused(other)) << i;
      ++count;
    }
  EXPECT_GE(count, 2);
}

/// What computation reads.
class Parameters : public Swapped {
protected:
  void SetUp() override { load(ofParameters, 3); }
};

TEST_F(Parameters, ThoseOfAnotherLayer) {
  std::vector<size_t> ofLayers;
  for (size_t fetch : fetches)
    if (body()[readerOf(fetch)].path >= 0)
      ofLayers.push_back(fetch);
  EXPECT_GE(exchangeNeighbours(trace, ofLayers, {}), 4);
}

TEST_F(Parameters, ASourceThatIsShifted) {
  for (size_t fetch : fetches) {
    Trace other = trace;
    Event &event = other.bodies.front()[fetch];
    auto &source = event.accesses[event.accesses[1].writes];
    source.begin += source.begin == 0 ? 128 : -128;
    int64_t path = other.bodies.front()[readerOf(fetch)].path;
    // Of what is read outside of layers, the plan alone says what it is.
    if (path >= 0)
      EXPECT_TRUE(isRefused(other)) << fetch;
  }
}

TEST_P(Streams, AFetchThatComesLate) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(isRefused(moved(trace, fetch, readerOf(fetch) + 1))) << fetch;
}

TEST_P(Streams, AFetchThatNobodyWaitsFor) {
  for (size_t fetch : fetches)
    EXPECT_TRUE(
        isRefused(withoutJoins(trace, Stream::Compute, fetch, readerOf(fetch))))
        << fetch;
}

TEST_P(Streams, ASlotThatIsReusedTooSoon) {
  int count = 0;
  for (size_t number = 1; number < fetches.size(); ++number) {
    // That of what is fetched before, where it is not read yet.
    if (readerOf(fetches[number - 1]) < fetches[number])
      continue;
    Trace other = trace;
    Event &event = other.bodies.front()[fetches[number]];
    event.accesses[event.accesses[1].writes].begin =
        targetOf(body()[fetches[number - 1]]).begin;
    EXPECT_TRUE(isRefused(other)) << number;
    ++count;
  }
  EXPECT_GE(count, 1);
}

TEST_P(Streams, AStoreThatComesEarly) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(moved(trace, store, writerOf(store)))) << store;
}

TEST_P(Streams, AStoreThatIsLeftOut) {
  for (size_t store : stores)
    EXPECT_TRUE(isRefused(without(trace, store))) << store;
}

TEST_P(Streams, AStoreToAnotherPlace) { refuseOtherPlaces(); }

} // namespace
