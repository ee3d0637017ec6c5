//===- Simulation.cpp - Simulates the communication of ranks --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulation.h"
#include <algorithm>
#include <deque>
#include <set>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// Simulates collectives and messages in one order. Any other order would give
/// the same result: executing one of them never prevents the execution of
/// another. Whether a collective or message blocks depends only on which others
/// were executed before (as in Kahn process networks).
class Simulation {
public:
  explicit Simulation(const Peers &peers)
      : peers(peers), ranks(peers.traces.size()), atHead(peers.groups.size()),
        sent(peers.channels.size()), taken(peers.channels.size()) {
    for (size_t who = 0; who < ranks.size(); ++who) {
      ranks[who].tokens.resize(peers.traces[who].tokens);
      bool closed = true;
      for (const auto &events : peers.events[who])
        closed &= !startsWithOthers(who, events) || waitsForItsOwn(events);
      for (const auto &events : peers.events[who]) {
        ranks[who].bodies.push_back(events);
        if (closed && !startsWithOthers(who, events))
          dropCollectives(ranks[who].bodies.back());
      }
      wake(who);
    }
  }

  std::optional<Fault> run() {
    while (!ready.empty()) {
      size_t who = ready.front();
      ready.pop_front();
      ranks[who].isReady = false;
      while (const Event *event = skipToEvent(ranks[who])) {
        if (!execute(who, *event))
          break;
        ++ranks[who].next;
      }
    }
    for (size_t who = 0; who < ranks.size(); ++who)
      if (skipToEvent(ranks[who]))
        return circle(who);
    return std::nullopt;
  }

private:
  /// A collective that was started, or a message that was sent.
  struct Queued {
    int64_t group;
    const Event *event;
    size_t run;
  };

  struct Rank {
    /// The collectives and messages of each body of the trace (the commands of
    /// a loop, for example).
    std::vector<std::vector<const Event *>> bodies;
    /// The position of the rank in its trace. `run` is an index in Trace::runs,
    /// which lists the executions of bodies (of loops, for example). `next` is
    /// the index, within that body's entry in `bodies`, of the next event.
    size_t run = 0, next = 0;
    /// Collectives of this rank that are not done, the oldest first.
    std::deque<Queued> queue;
    /// Sends in flight. The `group` of such an entry is the index of the send's
    /// channel.
    std::deque<Queued> out;
    int64_t started = 0, finished = 0;
    /// For each token, how many collectives this rank had started when it
    /// started the token's collective, including that one. The collective is
    /// done when `finished`, the number of collectives that this rank has
    /// completed, has reached this number.
    std::vector<int64_t> tokens;
    /// Maps the name of each plan::Channel on which this rank has sent to the
    /// channel's index in Peers::channels. A flush knows only the name.
    std::map<std::string, int64_t> sending;
    bool isReady = false;
  };

  /// What keeps a participant from continuing: its next command, or the
  /// collective or send at the head of its queue.
  struct Waiting {
    size_t who;
    enum { AtCommand, ToRun, ToSend } where;
    bool operator==(const Waiting &other) const {
      return who == other.who && where == other.where;
    }
  };

  using Events = std::vector<const Event *>;

  bool startsWithOthers(size_t who, const Events &events) const {
    return std::any_of(events.begin(), events.end(), [&](const Event *event) {
      return event->kind == Event::Kind::Start &&
             peers.groupOf[who][event->number] >= 0;
    });
  }

  static bool waitsForItsOwn(const Events &events) {
    std::set<int32_t> open;
    for (const Event *event : events)
      if (event->kind == Event::Kind::Start)
        open.insert(event->token);
      else if (event->kind == Event::Kind::Wait)
        open.erase(event->token);
    return open.empty();
  }

  /// Removes all collectives, and their waits, from the events of a body (of a
  /// loop, for example). Each of these collectives must have a single
  /// participant. It could block only if a collective with several participants
  /// were queued before it, and the caller has excluded that.
  static void dropCollectives(Events &events) {
    events.erase(std::remove_if(events.begin(), events.end(),
                                [](const Event *event) {
                                  return event->kind == Event::Kind::Start ||
                                         event->kind == Event::Kind::Wait;
                                }),
                 events.end());
  }

  void wake(size_t who) {
    if (!ranks[who].isReady)
      ready.push_back(who);
    ranks[who].isReady = true;
  }

  const Trace &traceOf(const Rank &rank) const {
    return peers.traces[&rank - ranks.data()];
  }

  /// Returns the next event to execute, or null at the end.
  const Event *skipToEvent(Rank &rank) {
    const Trace &trace = traceOf(rank);
    for (; rank.run < trace.runs.size(); ++rank.run, rank.next = 0) {
      const auto &events = rank.bodies[trace.runs[rank.run].body];
      if (rank.next < events.size())
        return events[rank.next];
    }
    return nullptr;
  }

  /// Executes one collective or message. Returns false if it blocks; the rank
  /// tries again when another rank wakes it.
  bool execute(size_t who, const Event &event) {
    Rank &rank = ranks[who];
    switch (event.kind) {
    case Event::Kind::Start:
      rank.tokens[event.token] = ++rank.started;
      rank.queue.push_back(
          {peers.groupOf[who][event.number], &event, rank.run});
      if (rank.queue.size() == 1)
        runHead(who);
      return true;
    case Event::Kind::Wait:
      return rank.finished >= rank.tokens[event.token];
    case Event::Kind::Send: {
      int64_t channel = peers.channelOf[who][event.number];
      rank.sending[peers.channels[channel].name] = channel;
      ++sent[channel];
      rank.out.push_back({channel, &event, rank.run});
      wake(peers.channels[channel].to);
      return true;
    }
    case Event::Kind::Receive: {
      int64_t channel = peers.channelOf[who][event.number];
      if (sent[channel] == taken[channel] || !take(channel))
        return false;
      ++taken[channel];
      wake(peers.channels[channel].from);
      return true;
    }
    case Event::Kind::Flush: {
      int64_t channel = flushed(who, event);
      return channel < 0 || sent[channel] - taken[channel] <= event.left;
    }
    default:
      return true;
    }
  }

  /// Called when a rank reaches a receive: completes the oldest pending send of
  /// the channel. Returns false if the sender must first complete sends that it
  /// started earlier on other channels (see Trace::sendsInOrder).
  bool take(int64_t channel) {
    size_t from = peers.channels[channel].from;
    std::deque<Queued> &out = ranks[from].out;
    auto next = std::find_if(out.begin(), out.end(), [&](const Queued &send) {
      return send.group == channel;
    });
    if (next != out.begin() && peers.traces[from].sendsInOrder)
      return false;
    out.erase(next);
    if (!out.empty())
      wake(peers.channels[out.front().group].to);
    return true;
  }

  /// Returns the channel whose sends a flush (a wait for earlier sends) waits
  /// for. Returns -1 if nothing was sent on the channel yet.
  int64_t flushed(size_t who, const Event &event) const {
    const std::string &name =
        peers.traces[who].messages[event.number].channel.name;
    auto channel = ranks[who].sending.find(name);
    return channel == ranks[who].sending.end() ? -1 : channel->second;
  }

  /// Executes the next collective of a rank's queue if it is at the head of the
  /// queues of all members of its group. Repeats this until no collective can
  /// be executed.
  void runHead(size_t first) {
    std::vector<size_t> changed = {first};
    while (!changed.empty()) {
      size_t who = changed.back();
      changed.pop_back();
      if (ranks[who].queue.empty())
        continue;
      int64_t group = ranks[who].queue.front().group;
      std::vector<int64_t> members = {static_cast<int64_t>(who)};
      if (group >= 0) {
        if (++atHead[group] < peers.groups[group].size())
          continue;
        atHead[group] = 0;
        members = peers.groups[group];
      }
      for (int64_t member : members) {
        ranks[member].queue.pop_front();
        ++ranks[member].finished;
        changed.push_back(member);
        wake(member);
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Finding the cycle of waiting ranks
  //===--------------------------------------------------------------------===//

  Waiting blocker(const Waiting &waiting) {
    Rank &rank = ranks[waiting.who];
    const Event *event = skipToEvent(rank);
    if (waiting.where == Waiting::ToSend)
      return {peers.channels[rank.out.front().group].to, Waiting::AtCommand};
    bool isAt = waiting.where == Waiting::AtCommand;
    if (isAt && event->kind == Event::Kind::Receive) {
      int64_t channel = peers.channelOf[waiting.who][event->number];
      return {peers.channels[channel].from, sent[channel] == taken[channel]
                                                ? Waiting::AtCommand
                                                : Waiting::ToSend};
    }
    if (isAt && event->kind == Event::Kind::Flush) {
      int64_t channel = flushed(waiting.who, *event);
      if (peers.traces[waiting.who].sendsInOrder &&
          rank.out.front().group != channel)
        return {waiting.who, Waiting::ToSend};
      return {peers.channels[channel].to, Waiting::AtCommand};
    }
    int64_t group = rank.queue.front().group;
    for (int64_t member : peers.groups[group]) {
      const auto &queue = ranks[member].queue;
      if (queue.empty() || queue.front().group != group)
        return {static_cast<size_t>(member),
                queue.empty() ? Waiting::AtCommand : Waiting::ToRun};
    }
    return waiting;
  }

  Fault circle(size_t who) {
    std::vector<Waiting> path = {{who, Waiting::AtCommand}};
    auto repeated = path.end();
    while (true) {
      Waiting next = blocker(path.back());
      repeated = std::find(path.begin(), path.end(), next);
      if (repeated != path.end())
        break;
      path.push_back(next);
    }
    path.erase(path.begin(), repeated);
    Fault fault{
        Fault::Kind::Deadlock, "ranks wait for each other for ever", {}};
    for (const Waiting &waiting : path) {
      Rank &rank = ranks[waiting.who];
      const Trace &trace = peers.traces[waiting.who];
      bool isAt = waiting.where == Waiting::AtCommand;
      bool runs = waiting.where == Waiting::ToRun;
      const Queued *queued = isAt   ? nullptr
                             : runs ? &rank.queue.front()
                                    : &rank.out.front();
      const Event *event = isAt ? skipToEvent(rank) : queued->event;
      const BodyRun &run = trace.runs[isAt ? rank.run : queued->run];
      fault.text += "; " + peers.name(waiting.who) +
                    (isAt   ? ", at "
                     : runs ? ", which has to run "
                            : ", which has to do ") +
                    trace.describe(*event, run) +
                    (isAt ? ", waits for " : " first, waits for ") +
                    peers.name(blocker(waiting).who);
      fault.sources.push_back({waiting.who, event->origin});
    }
    return fault;
  }

  const Peers &peers;
  std::vector<Rank> ranks;
  /// For each group, how many of its members have a collective of the group at
  /// the head of their queue. The collective runs when this number is the
  /// number of members.
  std::vector<size_t> atHead;
  std::vector<int64_t> sent, taken;
  std::deque<size_t> ready;
};

} // namespace

std::optional<Fault> heddle::prove::simulate(const Peers &peers) {
  return Simulation(peers).run();
}
