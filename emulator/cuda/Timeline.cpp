//===- Timeline.cpp - Executes the commands of streams --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the next command of the streams, runs it, and checks it for races.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Timeline.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace heddle::rt::cuda;

Timeline::Timeline(const Settings &settings)
    : settings(settings), random(settings.seed) {
  makeStream(/*isBlocking=*/true);
}

StreamData &Timeline::makeStream(bool isBlocking) {
  auto stream = std::make_unique<StreamData>();
  stream->number = streams.size();
  stream->isBlocking = isBlocking;
  stream->clock.resize(streams.size() + 1);
  streams.push_back(std::move(stream));
  return *streams.back();
}

/// Orders the stream's later commands after the point `point`.
static void waitFor(StreamData &stream, const Clock &point) {
  join(stream.clock, point);
  if (stream.number < point.size())
    stream.ended = std::max(stream.ended, point[stream.number]);
}

void Timeline::submit(StreamData &stream, Command command) {
  waitFor(stream, seen);
  if (stream.number == 0) {
    for (const auto &other : streams)
      if (other->isBlocking && other.get() != &stream)
        waitFor(stream, other->clock);
  } else if (stream.isBlocking) {
    waitFor(stream, defaultStream().clock);
  }
  command.isProgrammatic &= stream.endsWithKernel;
  command.ended = stream.ended;
  if (command.kind != Command::Kind::Mark)
    stream.endsWithKernel = command.kind == Command::Kind::Kernel;
  stream.clock[stream.number] = ++stream.submitted;
  command.clock = stream.clock;
  stream.queue.push_back(std::move(command));
  if (settings.order == Settings::Order::Early)
    reach(Clock(stream.clock));
  // With a random order, most commands stay in their streams until the host
  // waits for them. At one of 16 submissions, run up to 7 commands immediately.
  else if (settings.order == Settings::Order::Seed && random() % 16 == 0)
    for (uint64_t count = random() % 8; count > 0 && advance(); --count)
      ;
}

void Timeline::record(StreamData &stream, EventData &event) const {
  event.point = stream.clock;
}

void Timeline::wait(StreamData &stream, const EventData &event) {
  waitFor(stream, event.point);
}

bool Timeline::isDone(const Clock &point) const {
  for (size_t i = 0; i < point.size(); ++i)
    if (streams[i]->done < point[i])
      return false;
  return true;
}

bool Timeline::query(const Clock &point) {
  if (!isDone(point))
    return false;
  join(seen, point);
  return true;
}

void Timeline::finish() {
  Clock all;
  for (const auto &stream : streams)
    join(all, stream->clock);
  finish(all);
}

void Timeline::finish(const Clock &given) {
  Clock point = given; // A copy: the stream may be destroyed meanwhile.
  reach(point);
  join(seen, point);
}

void Timeline::reach(const Clock &point) {
  constexpr std::chrono::microseconds pause(50);
  for (size_t i = 0; i < point.size(); ++i)
    while (streams[i]->done < point[i]) {
      StreamData *next = nullptr;
      if (settings.order != Settings::Order::Seed)
        next = &leading(*streams[i]);
      if (next && isReady(*next))
        execute(*next);
      // The command waits for another process. That process may need commands
      // of other streams before it answers, so execute some of these.
      else if (!advance())
        std::this_thread::sleep_for(pause);
    }
}

void Timeline::advanceExchanges() {
  for (const auto &stream : streams) {
    auto waits = [](const Command &command) { return bool(command.isReady); };
    while (std::any_of(stream->queue.begin(), stream->queue.end(), waits)) {
      StreamData &next = leading(*stream);
      if (!isReady(next))
        break;
      execute(next);
    }
  }
}

bool Timeline::isReady(StreamData &stream) {
  Command &command = stream.queue.front();
  if (command.begin) {
    command.begin();
    command.begin = nullptr;
  }
  return !command.isReady || command.isReady();
}

bool Timeline::isFree(const StreamData &stream) const {
  if (stream.queue.empty())
    return false;
  const Clock &clock = stream.queue.front().clock;
  for (size_t i = 0; i < clock.size(); ++i)
    if (i != stream.number && streams[i]->done < clock[i])
      return false;
  return true;
}

/// Goes from a stream whose next command waits to the stream that it waits for.
/// A command only waits for commands that were submitted before it, so this
/// ends at a stream whose next command waits for no other stream.
StreamData &Timeline::leading(StreamData &stream) {
  StreamData *found = &stream;
  while (!isFree(*found)) {
    const Clock &clock = found->queue.front().clock;
    size_t i = 0;
    while (i == found->number || streams[i]->done >= clock[i])
      ++i;
    found = streams[i].get();
  }
  return *found;
}

bool Timeline::advance() {
  size_t first = random() % streams.size();
  for (size_t i = 0; i < streams.size(); ++i) {
    StreamData &chosen = *streams[(first + i) % streams.size()];
    if (isFree(chosen) && isReady(chosen)) {
      execute(chosen);
      return true;
    }
  }
  return false;
}

void Timeline::execute(StreamData &stream) {
  Command command = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++stream.done;
  command.run(command);
  if (!isChecked())
    return;
  checkOverlap(stream, command);
  races.add(command, stream.number);
  if (races.isLong())
    races.forgetBefore(floor());
}

void Timeline::checkOverlap(StreamData &stream, const Command &command) {
  using emulator::NextBegins;
  uint64_t &first = stream.firstRunning, number = stream.done;
  if (command.isProgrammatic) {
    first = std::max(first, command.ended + 1);
    races.checkEarlyReads(command, stream.number, first);
  }
  if (command.kind == Command::Kind::Mark)
    return;
  NextBegins next = command.memory.nextBegins;
  if (command.kind == Command::Kind::Other || next == NextBegins::AtEnd)
    first = number + 1;
  else if (next == NextBegins::AfterWait)
    first = number;
}

Clock Timeline::floor() const {
  Clock least = seen;
  least.resize(streams.size());
  for (const auto &stream : streams)
    if (!stream->queue.empty()) {
      Clock clock = stream->queue.front().clock;
      clock.resize(streams.size());
      // A programmatic launch may begin before the commands before it end.
      uint64_t &own = clock[stream->number];
      own = std::min(own, stream->firstRunning - 1);
      for (size_t i = 0; i < least.size(); ++i)
        least[i] = std::min(least[i], clock[i]);
    }
  return least;
}

void Timeline::abandon() {
  for (const auto &stream : streams) {
    stream->done = stream->submitted;
    stream->queue.clear();
  }
  races.clear();
}
