//===- RaceDetector.cpp - Finds races between commands --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds races between commands of streams. Keeps the last accesses of each
// range of bytes in an ordered map.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/RaceDetector.h"

#include <algorithm>

using namespace heddle::rt;
using namespace heddle::rt::cuda;

/// Whether command `number` of the stream `stream` comes before the point in
/// time `clock`.
static bool isBefore(size_t stream, uint64_t number, const Clock &clock) {
  return stream < clock.size() && clock[stream] >= number;
}

static std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

/// Throws if `command` races with `earlier`, a command that was executed before
/// it: no event or wait orders the two.
template <class Completed>
static void require(const Completed &earlier, const char *did, uint64_t address,
                    const Command &command, const char *does) {
  if (!earlier.name || isBefore(earlier.stream, earlier.number, command.clock))
    return;
  throw Fault{LaunchFailed, command.name + " " + does + " the byte at " +
                                hex(address) + " that " + *earlier.name + " " +
                                did + "; no event or wait orders them"};
}

RaceDetector::Segments::iterator RaceDetector::split(uint64_t address) {
  auto after = segments.lower_bound(address);
  if (after == segments.begin())
    return after;
  auto before = std::prev(after);
  if (before->second.end <= address)
    return after;
  Segment rest = before->second;
  before->second.end = address;
  return segments.emplace_hint(after, address, std::move(rest));
}

void RaceDetector::read(emulator::ByteRange range, const Command &command,
                        const CompletedCommand &mark) {
  split(range.end);
  auto at = split(range.first);
  for (uint64_t address = range.first; address < range.end;) {
    if (at == segments.end() || at->first > address) {
      // No earlier command has accessed the bytes from `address` to `next`, so
      // add a segment (bytes with the same last accesses) for them.
      uint64_t next = at == segments.end() ? range.end : at->first;
      Segment fresh;
      fresh.end = std::min(range.end, next);
      at = segments.emplace_hint(at, address, std::move(fresh));
    }
    Segment &segment = at->second;
    require(segment.writer, "wrote", address, command, "reads");
    auto same = std::find_if(segment.readers.begin(), segment.readers.end(),
                             [&](const CompletedCommand &other) {
                               return other.stream == mark.stream;
                             });
    if (same == segment.readers.end())
      segment.readers.push_back(mark);
    else
      *same = mark;
    address = segment.end;
    ++at;
  }
}

void RaceDetector::write(emulator::ByteRange range, const Command &command,
                         const CompletedCommand &mark) {
  split(range.end);
  auto begin = split(range.first), at = begin;
  for (; at != segments.end() && at->first < range.end; ++at) {
    require(at->second.writer, "wrote", at->first, command, "writes");
    for (const CompletedCommand &reader : at->second.readers)
      require(reader, "read", at->first, command, "writes");
  }
  auto after = segments.erase(begin, at);
  segments.emplace_hint(after, range.first, Segment{range.end, mark, {}});
}

void RaceDetector::add(const Command &command, size_t stream) {
  CompletedCommand mark = {stream, command.clock[stream],
                           std::make_shared<const std::string>(command.name)};
  for (const emulator::ByteRange &range : command.memory.reads)
    read(range, command, mark);
  for (const emulator::ByteRange &range : command.memory.writes)
    write(range, command, mark);
}

void RaceDetector::checkEarlyReads(const Command &command, size_t stream,
                                   uint64_t first) const {
  for (const emulator::EarlyRead &read : command.memory.earlyReads) {
    auto [begin, end] = read.range;
    auto at = segments.upper_bound(begin);
    if (at != segments.begin() && std::prev(at)->second.end > begin)
      --at;
    for (; at != segments.end() && at->first < end; ++at) {
      const CompletedCommand &writer = at->second.writer;
      if (!writer.name || writer.stream != stream || writer.number < first)
        continue;
      throw Fault{LaunchFailed,
                  command.name + ", line " + std::to_string(read.line) +
                      ", reads before griddepcontrol.wait the byte at " +
                      hex(std::max(begin, at->first)) + " that " +
                      *writer.name + " writes, which may still be running"};
    }
  }
}

void RaceDetector::forgetBefore(const Clock &floor) {
  auto isPast = [&](const CompletedCommand &mark) {
    return !mark.name || isBefore(mark.stream, mark.number, floor);
  };
  for (auto at = segments.begin(); at != segments.end();) {
    Segment &segment = at->second;
    std::vector<CompletedCommand> &readers = segment.readers;
    readers.erase(std::remove_if(readers.begin(), readers.end(), isPast),
                  readers.end());
    if (isPast(segment.writer))
      segment.writer = {};
    bool isEmpty = !segment.writer.name && readers.empty();
    at = isEmpty ? segments.erase(at) : std::next(at);
  }
  most = std::max<size_t>(4096, 2 * segments.size());
}
