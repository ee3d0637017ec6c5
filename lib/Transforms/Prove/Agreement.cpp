//===- Agreement.cpp - Checks that ranks run the same communication -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulation.h"
#include "heddle/runtime/core/Traffic.h"
#include <algorithm>
#include <set>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;

Peers::Peers(const plan::Mesh &mesh, const std::vector<Trace> &traces)
    : mesh(mesh), peerMesh(mesh), traces(traces) {
  byStage = static_cast<int64_t>(traces.size()) != mesh.ranks();
  if (byStage)
    peerMesh = mesh.along(plan::AxisRole::Pipeline);
  for (const Trace &trace : traces) {
    auto &bodies = events.emplace_back();
    for (const Body &body : trace.bodies) {
      auto &list = bodies.emplace_back();
      for (const Event &event : body)
        if (event.isCommunication())
          list.push_back(&event);
    }
  }
}

std::string Peers::name(size_t who) const {
  return (byStage ? "stage " : "rank ") + std::to_string(who);
}

void Peers::forEach(
    size_t who,
    const std::function<void(const Event &, const BodyRun &)> &act) const {
  const Trace &trace = traces[who];
  for (const BodyRun &run : trace.runs)
    for (const Event *event : events[who][run.body])
      act(*event, run);
}

/// Returns the mesh axes of a collective along which there is more than one
/// participant, the outermost axis first.
static std::vector<std::string> axesOf(const plan::Mesh &peerMesh,
                                       const Collective &collective) {
  std::vector<std::string> axes;
  const auto &wanted = collective.what.axes;
  for (const std::string &axis : peerMesh.atoms())
    if (peerMesh.size(axis) > 1 && peerMesh.covers(wanted, axis))
      axes.push_back(axis);
  return axes;
}

void Peers::findGroups() {
  std::map<std::vector<int64_t>, int64_t> known;
  groupOf.resize(traces.size());
  for (size_t who = 0; who < traces.size(); ++who)
    for (const Collective &collective : traces[who].collectives) {
      std::vector<int64_t> ranks =
          peerMesh.group(who, axesOf(peerMesh, collective));
      int64_t number = -1;
      if (ranks.size() > 1) {
        auto [entry, isNew] = known.try_emplace(ranks, groups.size());
        if (isNew)
          groups.push_back(ranks);
        number = entry->second;
      }
      groupOf[who].push_back(number);
    }
}

void Peers::findChannels() {
  using Key = std::tuple<size_t, size_t, std::string, std::string>;
  std::map<Key, int64_t> known;
  channelOf.resize(traces.size());
  for (size_t who = 0; who < traces.size(); ++who) {
    channelOf[who].assign(traces[who].messages.size(), -1);
    forEach(who, [&](const Event &event, const BodyRun &) {
      bool sends = event.kind == Event::Kind::Send;
      if ((!sends && event.kind != Event::Kind::Receive) ||
          channelOf[who][event.number] >= 0)
        return;
      const plan::Channel &channel = traces[who].messages[event.number].channel;
      int64_t extent = mesh.size(channel.axis);
      int64_t delta = (channel.delta % extent + extent) % extent;
      int64_t here = peerMesh.coordinate(who, {channel.axis});
      size_t peer = peerMesh.member(who, {channel.axis}, here + delta);
      // The message's axis, and the distance from sender to receiver along it,
      // if the message is between two ranks of one stage and each stage has
      // only one trace. That trace is then the sender and the receiver, and
      // only the distance tells its messages apart. Otherwise empty.
      std::string within;
      if (peerMesh.size(channel.axis) != extent)
        within = channel.axis +
                 std::to_string(sends ? delta : (extent - delta) % extent);
      Key key{sends ? who : peer, sends ? peer : who, channel.name, within};
      auto [entry, isNew] = known.try_emplace(key, channels.size());
      if (isNew)
        channels.push_back({std::get<0>(key), std::get<1>(key), channel.name});
      channelOf[who][event.number] = entry->second;
    });
  }
}

namespace {

/// One execution of a collective or message by a participant.
struct EventRun {
  const Event *event;
  const BodyRun *run;
};

class Agreement {
public:
  explicit Agreement(Peers &peers) : peers(peers) {}

  std::optional<Fault> check() {
    for (size_t who = 0; who < peers.traces.size(); ++who)
      for (const Body &body : peers.traces[who].bodies)
        for (const Event &event : body)
          if (event.kind == Event::Kind::Start && !checkShape(who, event))
            return fault;
    if (!checkCollectives() || !checkMessages())
      return fault;
    return std::nullopt;
  }

private:
  const Collective &collectiveOf(size_t who, const Event &event) {
    return peers.traces[who].collectives[event.number];
  }
  const Message &messageOf(size_t who, const Event &event) {
    return peers.traces[who].messages[event.number];
  }
  std::string describe(size_t who, const EventRun &one) {
    return peers.traces[who].describe(*one.event, *one.run);
  }

  bool refuse(Fault::Kind kind, const std::string &text,
              std::vector<Fault::Source> sources) {
    fault = Fault{kind, text, std::move(sources)};
    return false;
  }

  /// Checks that the buffers of a collective have sizes that fit the number of
  /// ranks.
  bool checkShape(size_t who, const Event &event) {
    const Collective &collective = collectiveOf(who, event);
    const plan::Collective &what = collective.what;
    std::set<std::string> axes(what.axes.begin(), what.axes.end());
    std::string over;
    bool known = axes.size() == what.axes.size();
    for (const std::string &axis : what.axes) {
      known &= dist::roleOf(axis).has_value();
      over += (over.empty() ? "" : ", ") + axis;
    }
    int64_t ranks = peers.mesh.groupSize(what.axes);
    int64_t target = collective.targetBytes, source = collective.sourceBytes;
    bool fits = target == source;
    if (what.kind == plan::Collective::Kind::AllGather)
      fits = target == source * ranks;
    if (what.kind == plan::Collective::Kind::ReduceScatter)
      fits = source == target * ranks;
    plan::CollectiveShape shape = rt::shapeOf(what, ranks, target, source);
    if (what.kind != plan::Collective::Kind::AllReduce &&
        what.kind != plan::Collective::Kind::Rotate)
      fits = fits && plan::splits(shape.layout, shape.count, ranks);
    if (what.kind == plan::Collective::Kind::AllToAll)
      fits = fits && plan::splits(shape.concat, shape.count, ranks);
    std::vector<Fault::Source> here = {{who, event.origin}};
    if (!known || !fits)
      return refuse(Fault::Kind::Collectives,
                    "makes " + std::to_string(target) + " bytes of " +
                        std::to_string(source) + " over " +
                        std::to_string(ranks) + " ranks along [" + over + "]",
                    here);
    int64_t needed = plan::stagingBytes(shape);
    return collective.stagingBytes >= needed ||
           refuse(Fault::Kind::Collectives,
                  "has " + std::to_string(collective.stagingBytes) +
                      " bytes of staging memory, and needs " +
                      std::to_string(needed),
                  here);
  }

  bool alike(size_t who, const EventRun &a, size_t other, const EventRun &b) {
    const Collective &x = collectiveOf(who, *a.event);
    const Collective &y = collectiveOf(other, *b.event);
    const Trace &mine = peers.traces[who], &theirs = peers.traces[other];
    // Ranks of one stage run the same commands, so a collective must use the
    // same buffers on all of them.
    bool sameStage = mine.stage == theirs.stage;
    return a.event->guard == b.event->guard && x.what == y.what &&
           x.targetBytes == y.targetBytes && x.sourceBytes == y.sourceBytes &&
           x.reason == y.reason &&
           mine.iterationOf(*a.event, *a.run) ==
               theirs.iterationOf(*b.event, *b.run) &&
           (!sameStage || (x.targetBuffer == y.targetBuffer &&
                           x.targetBegin == y.targetBegin));
  }

  bool checkCollectives() {
    // For each group of participants, the collectives that each participant of
    // the group starts, in the order of their starts.
    std::vector<std::map<size_t, std::vector<EventRun>>> started(
        peers.groups.size());
    for (size_t who = 0; who < peers.traces.size(); ++who)
      peers.forEach(who, [&](const Event &event, const BodyRun &run) {
        if (event.kind != Event::Kind::Start)
          return;
        int64_t group = peers.groupOf[who][event.number];
        if (group >= 0)
          started[group][who].push_back({&event, &run});
      });
    for (size_t group = 0; group < peers.groups.size(); ++group)
      for (int64_t member : peers.groups[group])
        if (!compare(peers.groups[group].front(), member, started[group]))
          return false;
    return true;
  }

  bool compare(size_t first, size_t other,
               std::map<size_t, std::vector<EventRun>> &started) {
    const std::vector<EventRun> &mine = started[first],
                                &theirs = started[other];
    for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      std::string number = "collective " + std::to_string(i) + " of a group: ";
      if (i >= mine.size() || i >= theirs.size()) {
        size_t more = i < mine.size() ? first : other;
        size_t fewer = i < mine.size() ? other : first;
        const EventRun &one = (i < mine.size() ? mine : theirs)[i];
        return refuse(Fault::Kind::Collectives,
                      number + peers.name(more) + " starts " +
                          describe(more, one) + ", " + peers.name(fewer) +
                          " none",
                      {{more, one.event->origin}});
      }
      if (!alike(first, mine[i], other, theirs[i]))
        return refuse(
            Fault::Kind::Collectives,
            number + peers.name(first) + " starts " + describe(first, mine[i]) +
                ", " + peers.name(other) + " " + describe(other, theirs[i]) +
                (mine[i].event->guard == theirs[i].event->guard
                     ? ", in another shape or for something else"
                     : ", in other steps"),
            {{first, mine[i].event->origin}, {other, theirs[i].event->origin}});
    }
    return true;
  }

  bool checkMessages() {
    struct Traffic {
      std::vector<EventRun> sent, received;
    };
    std::vector<Traffic> traffic(peers.channels.size());
    std::map<std::pair<size_t, std::string>, int64_t> sending;
    bool fine = true;
    for (size_t who = 0; who < peers.traces.size(); ++who)
      peers.forEach(who, [&](const Event &event, const BodyRun &run) {
        bool sends = event.kind == Event::Kind::Send;
        if (!fine || (!sends && event.kind != Event::Kind::Receive))
          return;
        int64_t channel = peers.channelOf[who][event.number];
        (sends ? traffic[channel].sent : traffic[channel].received)
            .push_back({&event, &run});
        const std::string &name = peers.channels[channel].name;
        if (sends &&
            sending.try_emplace({who, name}, channel).first->second != channel)
          fine = refuse(Fault::Kind::Messages,
                        peers.name(who) + " sends on channel \"" + name +
                            "\" to two ranks: a flush would be of one alone",
                        {{who, event.origin}});
      });
    for (size_t channel = 0; fine && channel < traffic.size(); ++channel)
      fine = compare(peers.channels[channel], traffic[channel].sent,
                     traffic[channel].received);
    return fine;
  }

  bool compare(const Peers::Channel &channel, const std::vector<EventRun> &sent,
               const std::vector<EventRun> &received) {
    std::string between = " on channel \"" + channel.name + "\" from " +
                          peers.name(channel.from) + " to " +
                          peers.name(channel.to);
    for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
      std::string number = "message " + std::to_string(i) + between;
      if (i >= received.size())
        return refuse(
            Fault::Kind::Messages,
            number + " is not received: " + describe(channel.from, sent[i]),
            {{channel.from, sent[i].event->origin}});
      if (i >= sent.size())
        return refuse(Fault::Kind::Messages,
                      number +
                          " is not sent: " + describe(channel.to, received[i]),
                      {{channel.to, received[i].event->origin}});
      const Message &in = messageOf(channel.from, *sent[i].event);
      const Message &out = messageOf(channel.to, *received[i].event);
      bool same = peers.traces[channel.from].iterationOf(*sent[i].event,
                                                         *sent[i].run) ==
                  peers.traces[channel.to].iterationOf(*received[i].event,
                                                       *received[i].run);
      if (!(sent[i].event->guard == received[i].event->guard))
        return refuse(Fault::Kind::Messages,
                      number + " is sent by " +
                          describe(channel.from, sent[i]) +
                          " in other steps than " +
                          describe(channel.to, received[i]) + " receives it",
                      {{channel.from, sent[i].event->origin},
                       {channel.to, received[i].event->origin}});
      if (!same || in.bytes != out.bytes || in.type != out.type)
        return refuse(Fault::Kind::Messages,
                      number + " is " + std::to_string(in.bytes) +
                          " bytes of " + plan::nameOf(in.type) + " at " +
                          describe(channel.from, sent[i]) + ", and " +
                          std::to_string(out.bytes) + " bytes of " +
                          plan::nameOf(out.type) + " at " +
                          describe(channel.to, received[i]),
                      {{channel.from, sent[i].event->origin},
                       {channel.to, received[i].event->origin}});
    }
    return true;
  }

  Peers &peers;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault>
heddle::prove::checkAgreement(const plan::Mesh &mesh,
                              const std::vector<Trace> &traces) {
  Peers peers(mesh, traces);
  peers.findGroups();
  peers.findChannels();
  if (std::optional<Fault> fault = Agreement(peers).check())
    return fault;
  return simulate(peers);
}
