//===- DeviceExchange.cpp - Collectives between devices (NCCL) ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates the communicators of a plan's collectives and messages on all ranks
// in one order, and enqueues the operations on streams.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/DeviceExchange.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/OffloadTimes.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// The groups of ranks for which at least one rank of the plan needs a
/// communicator. Every rank computes the same sets and creates the
/// communicators in the same order.
struct Needs {
  std::set<std::vector<int>> groups;
  /// The groups that run an all-to-all or a rotate. In such a group every rank
  /// needs a connection to every other rank.
  std::set<std::vector<int>> exchanges;
  /// Pairs of a sender and a receiver of messages.
  std::set<std::pair<int64_t, int64_t>> edges;
};

} // namespace

/// Returns the rank at distance `delta` along the channel's axis.
static int64_t neighbour(const plan::Mesh &mesh, int64_t rank,
                         const plan::Channel &channel) {
  int64_t extent = mesh.size(channel.axis);
  int64_t to = mesh.coordinate(rank, {channel.axis}) + channel.delta;
  return mesh.member(rank, {channel.axis}, (to % extent + extent) % extent);
}

static Needs needsOf(const plan::Plan &plan) {
  Needs needs;
  for (int64_t rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const plan::Stage &stage = plan.stages[plan.mesh.stageOf(rank)];
    for (const plan::Sequence &sequence : stage.sequences)
      for (const plan::Command &command : sequence.commands)
        command.visit(
            [&](const plan::command::Collective &start) {
              std::vector<int> ranks =
                  makeCommunicator(plan.mesh, start.collective.axes, int(rank))
                      .ranks;
              if (start.collective.kind == plan::CollectiveKind::AllToAll ||
                  start.collective.kind == plan::CollectiveKind::Rotate)
                needs.exchanges.insert(ranks);
              needs.groups.insert(std::move(ranks));
            },
            [&](const plan::command::Send &send) {
              needs.edges.emplace(rank,
                                  neighbour(plan.mesh, rank, send.channel));
            },
            [](const auto &) {});
  }
  return needs;
}

/// Returns the positions of the other ranks in a group of `size` ranks: 0 to
/// `size - 1` without `position`, in order.
static std::vector<int> others(int position, size_t size) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  all.erase(all.begin() + position);
  return all;
}

DeviceExchange::DeviceExchange(const plan::Plan &plan, Device &device,
                               DeviceLink &link, io::Peers &ranks)
    : device(device), link(link), self(ranks.rank()) {
  Needs needs = needsOf(plan);
  // Ranks wait for each other to create a communicator. If they did so in
  // different orders, they might wait in a cycle.
  std::vector<std::vector<int>> all;
  for (const std::vector<int> &group : needs.groups)
    if (group.size() > 1)
      all.push_back(group);
  size_t numGroups = all.size();
  for (const auto &[from, to] : needs.edges)
    all.push_back({int(from), int(to)});
  bool sends = false, receives = false;
  for (const auto &[from, to] : needs.edges) {
    sends |= from == self;
    receives |= to == self;
  }
  if (sends)
    out = link.addStream();
  if (receives)
    in = link.addStream();
  std::string made;
  ranks.together([&] {
    for (const std::vector<int> &group : all)
      made += group.front() == self ? link.nameGroup() + "\n" : "";
  });
  std::vector<std::istringstream> told;
  for (const std::string &text : ranks.exchange(made))
    told.emplace_back(text);
  ranks.together([&] {
    auto edge = needs.edges.begin();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::vector<int> &group = all[i];
      std::string name;
      told[group.front()] >> name;
      bool isMessage = i >= numGroups;
      auto here = std::find(group.begin(), group.end(), self);
      if (here != group.end()) {
        int position = int(here - group.begin());
        int number = link.join(name, int(group.size()), position);
        if (isMessage)
          pairGroups[*edge] = number;
        else
          groups[group] = number;
        // Connect now, while all ranks run this loop. NCCL would otherwise
        // connect at the first message, at which the ranks arrive in different
        // orders and might wait for each other.
        if (isMessage && position == 0)
          link.connect(number, {1}, {});
        else if (isMessage)
          link.connect(number, {}, {0});
        else if (needs.exchanges.count(group))
          link.connect(number, others(position, group.size()),
                       others(position, group.size()));
      }
      if (isMessage)
        ++edge;
    }
  });
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

bool DeviceExchange::takes(const plan::CollectiveShape &shape,
                           const CollectiveBuffers &buffers) const {
  // NCCL can only access device memory, so it cannot run a collective that has
  // a buffer on the host.
  for (Address buffer : {buffers.target, buffers.source})
    if (device.map(buffer))
      return false;
  if (shape.type != shape.wire && device.map(buffers.staging))
    return false;
  return link.takes(shape, buffers.stagingBytes);
}

int64_t DeviceExchange::add(const plan::CollectiveShape &shape,
                            const Communicator &group,
                            const CollectiveBuffers &buffers) {
  Collective &added = collectives.emplace_back();
  added.shape = &shape;
  added.axes = group.name;
  added.buffers = buffers;
  if (group.size() > 1) {
    added.group = groups.at(group.ranks);
    added.sentBytes = plan::bytesSent(shape, group.position);
  }
  added.ready = device.makeEvent();
  added.done = device.makeEvent();
  return int64_t(collectives.size()) - 1;
}

double DeviceExchange::measure(Stream stream,
                               const std::function<void()> &submit) {
  device.synchronize();
  int64_t begin = io::steadyNow();
  submit();
  device.synchronize(stream);
  return double(io::steadyNow() - begin) * 1e-9;
}

void DeviceExchange::run(const Collective &started) {
  const CollectiveBuffers &buffers = started.buffers;
  constexpr Stream stream = Stream::Communication;
  device.record(Stream::Compute, started.ready);
  device.wait(stream, started.ready);
  if (started.group >= 0 && started.shape->count > 0)
    link.run(stream, started.group, *started.shape, buffers.target,
             buffers.source, buffers.staging, buffers.stagingBytes);
  else if (!(buffers.target == buffers.source))
    device.copy(stream, buffers.target, buffers.source, buffers.targetBytes);
  device.record(stream, started.done);
}

void DeviceExchange::start(int64_t number) {
  const Collective &started = collectives[number];
  if (log && started.group >= 0)
    log->add(*started.shape, started.axes,
             measure(Stream::Communication, [&] { run(started); }));
  else
    run(started);
  bytesSent += started.sentBytes;
}

void DeviceExchange::wait(int64_t number) {
  device.wait(Stream::Compute, collectives[number].done);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

int DeviceExchange::pairGroupOf(int64_t from, int64_t to) const {
  auto found = pairGroups.find({from, to});
  return found == pairGroups.end() ? -1 : found->second;
}

int64_t DeviceExchange::addLine(const std::string &axis, int64_t peer) {
  Line &line = lines.emplace_back();
  line.axis = axis;
  line.out = pairGroupOf(self, peer);
  line.in = pairGroupOf(peer, self);
  line.ready = device.makeEvent();
  line.done = device.makeEvent();
  return int64_t(lines.size()) - 1;
}

void DeviceExchange::send(int64_t number, Address data, int64_t bytes) {
  Line &line = lines[number];
  device.record(Stream::Compute, line.ready);
  device.wait(out, line.ready);
  link.send(out, line.out, 1, data, bytes);
  if (line.sends == int64_t(line.sent.size()))
    line.sent.push_back(device.makeEvent());
  device.record(out, line.sent[line.sends++]);
  bytesSent += bytes;
  if (log)
    log->add({"send", line.axis, 2, bytes}, 0);
}

void DeviceExchange::receive(int64_t number, Address data, int64_t bytes) {
  Line &line = lines[number];
  auto submit = [&] {
    device.record(Stream::Compute, line.ready);
    device.wait(in, line.ready);
    link.receive(in, line.in, 0, data, bytes);
    device.record(in, line.done);
    device.wait(Stream::Compute, line.done);
  };
  if (log)
    log->add({"receive", line.axis, 2, bytes},
             measure(Stream::Compute, submit));
  else
    submit();
}

void DeviceExchange::flush(int64_t number, int64_t count) {
  Line &line = lines[number];
  int64_t done = std::max<int64_t>(0, line.sends - count);
  if (done > line.flushed) {
    device.wait(Stream::Compute, line.sent[done - 1]);
    line.flushed = done;
  }
  if (count == 0)
    line.sends = line.flushed = 0;
}
