//===- TraceExecution.cpp - Runs traces on symbols ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/TraceExecution.h"
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;
using namespace heddle::test;

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 32);
}

/// Byte b of a piece holds symbol `id`'s byte b - begin + offset; zeros are all
/// alike.
struct Piece {
  int64_t end = 0;
  uint64_t id = 0;
  int64_t offset = 0;
};
constexpr uint64_t zeros = 1;

class Memory {
public:
  explicit Memory(uint64_t id) { pieces[INT64_MIN / 2] = {INT64_MAX, id, 0}; }

  using Content = std::vector<Piece>; ///< `end` counts from the range's begin.

  Content read(Range range) const {
    Content content;
    if (range.begin >= range.end)
      return content;
    auto piece = std::prev(pieces.upper_bound(range.begin));
    int64_t follows = 0; ///< The offset that would go on with the last piece.
    for (; piece != pieces.end() && piece->first < range.end; ++piece) {
      int64_t begin = std::max(piece->first, range.begin);
      int64_t end = std::min(piece->second.end, range.end);
      uint64_t id = piece->second.id;
      int64_t offset =
          id == zeros ? 0 : piece->second.offset + begin - piece->first;
      if (!content.empty() && content.back().id == id &&
          (id == zeros || offset == follows))
        content.back().end = end - range.begin;
      else
        content.push_back({end - range.begin, id, offset});
      follows = offset + end - begin;
    }
    return content;
  }

  void write(Range range, const Content &content) {
    if (range.begin >= range.end)
      return;
    cut(range.begin);
    cut(range.end);
    pieces.erase(pieces.find(range.begin), pieces.find(range.end));
    int64_t begin = range.begin;
    for (const Piece &piece : content) {
      int64_t end = std::min(range.begin + piece.end, range.end);
      if (begin < end)
        pieces[begin] = {end, piece.id, piece.offset};
      begin = std::max(begin, end);
    }
    if (begin < range.end) // The content is shorter than the range.
      pieces[begin] = {range.end, mix(2, begin), 0};
  }

  void write(Range range, uint64_t id) {
    write(range, {{range.end - range.begin, id, 0}});
  }

private:
  void cut(int64_t place) {
    auto piece = std::prev(pieces.upper_bound(place));
    if (piece->first == place)
      return;
    Piece rest = piece->second;
    rest.offset += place - piece->first;
    piece->second.end = place;
    pieces[place] = rest;
  }

  std::map<int64_t, Piece> pieces; ///< By their begins; they cover everything.
};

uint64_t hashOf(const Memory::Content &content) {
  uint64_t hash = 3;
  for (const Piece &piece : content)
    hash = mix(mix(mix(hash, piece.end), piece.id), piece.offset);
  return hash;
}

class Execution {
public:
  Execution(const plan::Mesh &mesh, const std::vector<Trace> &traces,
            const Mood &mood)
      : mesh(mesh), traces(traces), mood(mood), random(mood.seed) {
    for (size_t who = 0; who < traces.size(); ++who) {
      ranks.emplace_back(mix(4, who), mix(mix(5, mood.seed), who));
      ranks.back().tokens.resize(traces[who].tokens, 0);
    }
    outcome.reads.resize(traces.size());
  }

  Outcome run() {
    while (!outcome.mismatched) {
      if (mood.pace == Mood::Pace::Eager)
        while (advanceCollectives(true, true))
          continue;
      if (mood.pace == Mood::Pace::LateEnd)
        while (advanceCollectives(true, false))
          continue;
      if (mood.pace == Mood::Pace::Random && random() % 3 == 0)
        advanceCollectives(random() % 2, random() % 2);
      if (advanceRank())
        continue;
      if (ended()) // What was not waited for may be half done.
        break;
      if (!advanceCollectives(true, true)) {
        outcome.hangs = true;
        break;
      }
    }
    for (size_t who = 0; who < ranks.size(); ++who)
      outcome.persistent =
          mix(outcome.persistent,
              hashOf(ranks[who].persistent.read({0, int64_t(1) << 40})));
    for (const auto &[key, messages] : mail)
      if (!messages.empty())
        outcome.mismatched = true;
    return outcome;
  }

private:
  struct Sent {
    Range range;
    Space space;
    size_t from;
    Memory::Content content; ///< Only when it is buffered.
  };
  struct Queued {
    const Event *event;
    bool begun = false;
  };
  struct Rank {
    Rank(uint64_t persistent, uint64_t arena)
        : persistent(persistent), arena(arena) {}
    Memory persistent, arena;
    size_t next = 0;
    std::deque<Queued> queue;
    int64_t started = 0, finished = 0;
    std::vector<int64_t> tokens;
    std::map<std::string, int64_t> under; ///< Sends that nobody took, by name.
  };
  using Mailbox = std::tuple<size_t, size_t, std::string>;

  Memory &memory(size_t who, Space space) {
    return space == Space::Arena ? ranks[who].arena : ranks[who].persistent;
  }
  static Range rangeOf(const Access &access) {
    return {access.begin, access.begin + access.bytes};
  }
  uint64_t nonce() { return mix(mood.seed + 7, ++nonces); }

  bool ended() const {
    for (size_t who = 0; who < ranks.size(); ++who)
      if (ranks[who].next < traces[who].bodies[0].size())
        return false;
    return true;
  }

  /// One rank executes one event.
  bool advanceRank() {
    size_t first = mood.pace == Mood::Pace::Random || mood.seed % 2
                       ? random() % ranks.size()
                       : 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      size_t who = (first + i) % ranks.size();
      const Body &body = traces[who].bodies[0];
      if (ranks[who].next < body.size() && step(who, body[ranks[who].next])) {
        ++ranks[who].next;
        return true;
      }
    }
    return false;
  }

  bool step(size_t who, const Event &event) {
    Rank &rank = ranks[who];
    const Trace &trace = traces[who];
    switch (event.kind) {
    case Event::Kind::Launch:
    case Event::Kind::Fill:
    case Event::Kind::Fresh:
    case Event::Kind::Copy:
    case Event::Kind::CopyRows:
      compute(who, event);
      return true;
    case Event::Kind::Start:
      if (event.token >= 0)
        rank.tokens[event.token] = ++rank.started;
      rank.queue.push_back({&event});
      return true;
    case Event::Kind::Wait:
      return event.token < 0 || rank.finished >= rank.tokens[event.token];
    case Event::Kind::Send: {
      const Access &access = event.accesses[0];
      Sent sent{rangeOf(access), access.space, who, {}};
      if (mood.buffered)
        sent.content = memory(who, access.space).read(sent.range);
      else
        ++rank.under[trace.messages[event.number].channel.name];
      mail[mailbox(who, event, true)].push_back(sent);
      return true;
    }
    case Event::Kind::Receive:
      return receive(who, event);
    case Event::Kind::Flush:
      return rank.under[trace.messages[event.number].channel.name] <=
             event.left;
    case Event::Kind::Record:
    case Event::Kind::Join:
    case Event::Kind::Settle:
      break; // One rank's streams are in the order of its commands here.
    }
    return true;
  }

  Mailbox mailbox(size_t who, const Event &event, bool sends) {
    const plan::Channel &channel = traces[who].messages[event.number].channel;
    int64_t extent = mesh.size(channel.axis);
    int64_t to = mesh.coordinate(who, {channel.axis}) + channel.delta;
    size_t peer =
        mesh.member(who, {channel.axis}, ((to % extent) + extent) % extent);
    return {sends ? who : peer, sends ? peer : who, channel.name};
  }

  bool receive(size_t who, const Event &event) {
    auto &messages = mail[mailbox(who, event, false)];
    if (messages.empty())
      return false;
    Sent sent = messages.front();
    messages.pop_front();
    const Access &access = event.accesses[0];
    if (sent.range.end - sent.range.begin != access.bytes)
      outcome.mismatched = true;
    if (!mood.buffered) {
      sent.content = memory(sent.from, sent.space).read(sent.range);
      --ranks[sent.from].under[traces[who].messages[event.number].channel.name];
    }
    memory(who, access.space).write(rangeOf(access), sent.content);
    outcome.reads[who].push_back(hashOf(sent.content));
    return true;
  }

  void compute(size_t who, const Event &event) {
    if (event.kind == Event::Kind::Fresh) {
      for (const Access &access : event.accesses)
        if (access.writes)
          memory(who, access.space)
              .write(rangeOf(access), mix(mix(6, access.buffer), who));
      return;
    }
    uint64_t hash = mix(mix(mix(8, event.origin), event.path), event.iteration);
    Memory::Content copied;
    for (const Access &access : event.accesses)
      if (!access.writes) {
        copied = memory(who, access.space).read(rangeOf(access));
        hash = mix(hash, hashOf(copied));
      }
    outcome.reads[who].push_back(hash);
    for (const Access &access : event.accesses) {
      if (!access.writes)
        continue;
      hash = mix(hash, 9);
      Memory &target = memory(who, access.space);
      if (event.kind == Event::Kind::Copy)
        target.write(rangeOf(access), copied);
      else
        target.write(rangeOf(access),
                     event.kind == Event::Kind::Fill ? zeros : hash);
    }
  }

  //===--------------------------------------------------------------------===//
  // Collectives
  //===--------------------------------------------------------------------===//

  const Collective &collectiveOf(size_t who, const Event &event) {
    return traces[who].collectives[event.number];
  }

  /// The members of the collective at the head of the rank's queue, if all of
  /// them are as far. Axes of one rank do not count.
  std::vector<int64_t> ready(size_t who) {
    if (ranks[who].queue.empty())
      return {};
    auto groupAt = [&](size_t member) {
      std::vector<int64_t> group = mesh.group(
          member,
          collectiveOf(member, *ranks[member].queue.front().event).what.axes);
      std::sort(group.begin(), group.end());
      return group;
    };
    std::vector<int64_t> group = groupAt(who);
    for (int64_t member : group)
      if (ranks[member].queue.empty() || groupAt(member) != group)
        return {};
    return mesh.group(
        who, collectiveOf(who, *ranks[who].queue.front().event).what.axes);
  }

  bool fits(const Collective &a, const Collective &b) {
    return a.what.kind == b.what.kind && a.what.type == b.what.type &&
           a.what.wire == b.what.wire && a.what.outer == b.what.outer &&
           a.what.splitOuter == b.what.splitOuter &&
           a.what.segments == b.what.segments &&
           a.targetBytes == b.targetBytes && a.sourceBytes == b.sourceBytes;
  }

  bool advanceCollectives(bool begins, bool ends) {
    size_t first = random() % ranks.size();
    for (size_t i = 0; i < ranks.size(); ++i) {
      size_t who = (first + i) % ranks.size();
      std::vector<int64_t> group = ready(who);
      if (group.empty())
        continue;
      bool begun = ranks[who].queue.front().begun;
      if (!begun && begins) {
        begin(group);
        return true;
      }
      if (begun && ends) {
        end(group);
        return true;
      }
    }
    return false;
  }

  Range rangeOf(const Event &event, int operand) {
    for (const Access &access : event.accesses)
      if (access.operand == operand)
        return rangeOf(access);
    return {};
  }
  Space spaceOf(const Event &event, int operand) {
    for (const Access &access : event.accesses)
      if (access.operand == operand)
        return access.space;
    return Space::Arena;
  }

  uint64_t sourceOf(int64_t member, const Event &event) {
    return hashOf(memory(member, spaceOf(event, 1)).read(rangeOf(event, 1)));
  }

  void begin(const std::vector<int64_t> &group) {
    for (int64_t member : group) {
      Queued &queued = ranks[member].queue.front();
      outcome.mismatched |=
          !fits(collectiveOf(group[0], *ranks[group[0]].queue.front().event),
                collectiveOf(member, *queued.event));
      queued.begun = true;
      sources[member] = sourceOf(member, *queued.event);
    }
    for (int64_t member : group) {
      const Event &event = *ranks[member].queue.front().event;
      for (int operand : {0, 2})
        memory(member, spaceOf(event, operand))
            .write(rangeOf(event, operand), nonce());
      afterBegin[member] = sourceOf(member, event);
    }
  }

  void end(const std::vector<int64_t> &group) {
    const Collective &first =
        collectiveOf(group[0], *ranks[group[0]].queue.front().event);
    uint64_t hash = mix(10, uint64_t(first.what.kind));
    for (int64_t member : group) {
      const Event &event = *ranks[member].queue.front().event;
      hash = mix(hash, sources[member]);
      if (sourceOf(member, event) != afterBegin[member])
        hash = mix(hash, nonce());
    }
    using Kind = plan::Collective::Kind;
    bool alike = first.what.kind == Kind::AllReduce ||
                 first.what.kind == Kind::AllGather;
    for (size_t place = 0; place < group.size(); ++place) {
      Rank &rank = ranks[group[place]];
      const Event &event = *rank.queue.front().event;
      memory(group[place], spaceOf(event, 0))
          .write(rangeOf(event, 0), alike ? hash : mix(hash, place));
      rank.queue.pop_front();
      ++rank.finished;
    }
  }

  const plan::Mesh &mesh;
  const std::vector<Trace> &traces;
  Mood mood;
  std::mt19937_64 random;
  std::deque<Rank> ranks;
  std::map<Mailbox, std::deque<Sent>> mail;
  std::map<int64_t, uint64_t> sources, afterBegin;
  uint64_t nonces = 0;
  Outcome outcome;
};

} // namespace

Outcome heddle::test::execute(const plan::Mesh &mesh,
                              const std::vector<Trace> &traces,
                              const Mood &mood) {
  return Execution(mesh, traces, mood).run();
}

Verdict heddle::test::judge(const plan::Mesh &mesh,
                            const std::vector<Trace> &mutant,
                            uint64_t expected) {
  using Pace = Mood::Pace;
  const Mood moods[] = {{false, Pace::Eager, 0},     {true, Pace::Eager, 1},
                        {false, Pace::LateBegin, 2}, {false, Pace::LateEnd, 4},
                        {true, Pace::LateBegin, 3},  {false, Pace::Random, 5},
                        {false, Pace::Random, 6},    {true, Pace::Random, 7}};
  std::vector<std::vector<uint64_t>> reads;
  std::set<uint64_t> results;
  for (const Mood &mood : moods) {
    Outcome outcome = execute(mesh, mutant, mood);
    if (outcome.hangs || outcome.mismatched)
      return Verdict::Hangs;
    results.insert(outcome.persistent);
    if (reads.empty())
      reads = outcome.reads;
    if (results.size() > 1 || reads != outcome.reads)
      return Verdict::Races;
  }
  return *results.begin() == expected ? Verdict::Fine : Verdict::Changed;
}
