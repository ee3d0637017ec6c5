//===- StreamsTest.cpp - Races between streams ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HandTraces.h"
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace heddle;
using namespace heddle::test;
using plan::Stream;
using prove::Event;
using prove::Fault;

namespace {

/// The reference: which events happen before which, pair by pair.
class Order {
public:
  explicit Order(const prove::Body &body)
      : body(body), before(body.size(), std::vector<bool>(body.size())) {
    for (size_t to = 0; to < body.size(); ++to) {
      if (size_t last = lastOf(to); last < to)
        add(last, to);
      for (size_t from = 0; from < to; ++from)
        if ((body[to].kind == Event::Kind::Join ||
             body[to].kind == Event::Kind::Settle) &&
            body[from].kind == Event::Kind::Record &&
            body[from].token == body[to].token)
          add(from, to);
    }
  }

  bool hasRace() const {
    for (size_t a = 0; a < body.size(); ++a)
      for (size_t b = a + 1; b < body.size(); ++b)
        if (!before[b][a] && conflict(body[a], body[b]))
          return true;
    return false;
  }

  /// Whether `compute` knows at the end that all is done; of the events from
  /// `second` on, or that they are left to the next run.
  bool isJoined(size_t second) const {
    size_t last = lastOf(body.size(), Stream::Compute);
    auto isLeft = [&](size_t i) {
      for (size_t to = std::max(i, second); to < body.size(); ++to)
        if (body[to].carries && before[to][i])
          return i >= second;
      return false;
    };
    for (size_t i = 0; i < body.size(); ++i)
      if (body[i].stream != Stream::Compute && !body[i].accesses.empty() &&
          (last == body.size() || !before[last][i]) && !isLeft(i))
        return false;
    return true;
  }

private:
  size_t lastOf(size_t to, Stream stream) const {
    for (size_t from = to; from-- > 0;)
      if (body[from].stream == stream)
        return from;
    return body.size();
  }
  size_t lastOf(size_t to) const { return lastOf(to, body[to].stream); }

  void add(size_t from, size_t to) {
    before[to][from] = true;
    for (size_t i = 0; i < from; ++i)
      before[to][i] = before[to][i] || before[from][i];
  }

  static bool conflict(const Event &a, const Event &b) {
    for (const prove::Access &x : a.accesses)
      for (const prove::Access &y : b.accesses)
        if ((x.writes || y.writes) && x.buffer == y.buffer)
          return true;
    return false;
  }

  const prove::Body &body;
  std::vector<std::vector<bool>> before;
};

/// A trace of commands, points and joins that a seed chooses; every other one
/// has four streams. With `carries` some points are for the next run.
prove::Trace drawTrace(unsigned seed, bool carries = false) {
  std::mt19937 random(seed);
  TraceWriter writer;
  std::vector<int32_t> buffers;
  for (int64_t i = 0; i < 6; ++i)
    buffers.push_back(writer.buffer(64 * i));
  auto anyStream = [&, count = seed % 2 ? 4 : 2] {
    return std::array{Stream::Compute, Stream::Copy, Stream::Store,
                      Stream::Host}[random() % count];
  };
  // The first two tokens are of points for the next run.
  std::set<int32_t> left;
  int32_t own = writer.trace.tokens = carries ? 2 : 0;
  for (int i = 0; i < 12; ++i) {
    Event::Kind kinds[] = {Event::Kind::Copy, Event::Kind::Record,
                           Event::Kind::Join, Event::Kind::Settle};
    Event::Kind kind = kinds[random() % (carries ? 4 : 3)];
    if (kind == Event::Kind::Join && writer.trace.tokens == own)
      continue;
    Event &event = writer.append(kind, "an event");
    event.stream = anyStream();
    if (kind == Event::Kind::Settle)
      event.token = random() % own;
    if (kind == Event::Kind::Record && carries && left.size() < 2) {
      event.carries = true;
      event.token = left.size();
      left.insert(event.token);
    } else if (kind == Event::Kind::Record) {
      event.token = writer.trace.tokens++;
    }
    if (kind == Event::Kind::Join)
      event.token = own + random() % (writer.trace.tokens - own);
    if (kind != Event::Kind::Copy)
      continue;
    event.accesses.push_back(
        writer.access(buffers[random() % buffers.size()], false, 1));
    event.accesses.push_back(
        writer.access(buffers[random() % buffers.size()], true, 0));
  }
  return writer.trace;
}

TEST(Streams, RacesAreThoseOfEveryPair) {
  int races = 0, open = 0, fine = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    prove::Trace trace = drawTrace(seed);
    Order order(trace.bodies[0]);
    std::optional<Fault> fault = prove::checkRaces(trace);
    if (order.hasRace()) {
      ++races;
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind, Fault::Kind::Race);
    } else if (!order.isJoined(0)) {
      ++open;
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind, Fault::Kind::Waits);
    } else {
      ++fine;
      EXPECT_FALSE(fault) << fault->text;
    }
  }
  EXPECT_GT(races, 500);
  EXPECT_GT(open, 100);
  EXPECT_GT(fine, 100);
}

/// What a run leaves is in the way of the next one.
TEST(Streams, RunsFollowEachOther) {
  int races = 0, open = 0, fine = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(seed);
    prove::Trace trace = drawTrace(seed, /*carries=*/true);
    prove::Body once = trace.bodies[0], twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    bool carries =
        std::any_of(once.begin(), once.end(),
                    [](const Event &event) { return event.carries; });
    Order first(once), both(carries ? twice : once);
    bool isFirst = first.hasRace() || !first.isJoined(0);
    const Order &order = isFirst ? first : both;
    size_t second = isFirst || !carries ? 0 : once.size();
    std::optional<Fault> fault = prove::checkRaces(trace);
    if (order.hasRace()) {
      races += !isFirst;
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind, Fault::Kind::Race);
    } else if (!order.isJoined(second)) {
      open += !isFirst;
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind, Fault::Kind::Waits);
    } else {
      fine += carries;
      EXPECT_FALSE(fault) << fault->text;
    }
  }
  EXPECT_GT(races, 50);
  EXPECT_GT(open, 100);
  EXPECT_GT(fine, 100);
}

/// A copy in the body of a loop: what it races with is in the next iteration.
TEST(Streams, BodiesFollowEachOther) {
  for (bool waits : {false, true}) {
    TraceWriter writer;
    int32_t x = writer.buffer(0), p = writer.buffer(64);
    writer.input(x);
    writer.trace.bodies.resize(2);
    writer.body = 1;
    auto record = [&](Stream stream) {
      Event &event = writer.append(Event::Kind::Record, "a record");
      event.stream = stream;
      event.token = writer.trace.tokens++;
      return event.token;
    };
    auto join = [&](Stream stream, int32_t token) {
      Event &event = writer.append(Event::Kind::Join, "a join");
      event.stream = stream;
      event.token = token;
    };
    writer.launch({}, {x});
    join(Stream::Copy, record(Stream::Compute));
    Event &copy = writer.append(Event::Kind::Copy, "a copy");
    copy.stream = Stream::Copy;
    copy.accesses = {writer.access(x, false, 1), writer.access(p, true, 0)};
    int32_t done = record(Stream::Copy);
    if (waits)
      join(Stream::Compute, done);
    for (int64_t iteration = 0; iteration < 3; ++iteration)
      writer.trace.runs.push_back({1, iteration, 0});
    for (const prove::Trace &trace :
         {writer.trace, prove::unroll(writer.trace)}) {
      std::optional<Fault> fault = prove::checkRaces(trace);
      EXPECT_EQ(fault.has_value(), !waits);
      if (fault)
        EXPECT_EQ(fault->kind, Fault::Kind::Race);
    }
  }
}

} // namespace
