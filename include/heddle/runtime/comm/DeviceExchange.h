//===- DeviceExchange.h - Collectives between devices (NCCL) ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Communication between devices by their own library, NCCL for GPUs, on
// streams. Ranks uses it for the collectives and messages that it supports; the
// host runs the rest.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
#define HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/core/Communication.h"
#include "heddle/runtime/core/DeviceLink.h"
#include "heddle/runtime/io/Peers.h"

#include <map>

namespace heddle::rt {

/// Runs the collectives and messages of a plan that devices exchange directly.
/// Collectives run on the communication stream, after the computation stream
/// has reached them; the computation stream, not the host, waits for their
/// results. All sends of a rank run on one stream and all receives on another,
/// each in the plan's order. A send may block its stream until the peer's
/// receive runs, so the prove phase refuses plans in which such waits form a
/// cycle. There is one communicator for each ordered pair of ranks with
/// messages, because NCCL runs the operations of one communicator in order,
/// whatever their streams.
class DeviceExchange {
public:
  /// Creates the communicators of `plan`; every rank does so at the same time.
  DeviceExchange(const plan::Plan &plan, Device &device, DeviceLink &link,
                 io::Peers &ranks);

  /// Whether the devices run this collective.
  bool takes(const plan::CollectiveShape &shape,
             const CollectiveBuffers &buffers) const;
  /// Registers a collective. Returns its index, which `start` and `wait` take.
  /// The shape must outlive this object.
  int64_t add(const plan::CollectiveShape &shape, const Communicator &group,
              const CollectiveBuffers &buffers);
  void start(int64_t collective);
  void wait(int64_t collective);

  /// Registers the messages of a channel (a line) between this rank and `peer`.
  /// Returns the line's index, which `send`, `receive` and `flush` take.
  int64_t addLine(int64_t peer);
  void send(int64_t line, Address data, int64_t bytes);
  void receive(int64_t line, Address data, int64_t bytes);
  /// Makes later computation on the device wait for the sends of the line,
  /// except for the last `count` sends.
  void flush(int64_t line, int64_t count);

  /// Bytes that this rank has sent between devices.
  int64_t bytesSent = 0;

private:
  struct Collective {
    const plan::CollectiveShape *shape = nullptr;
    CollectiveBuffers buffers;
    int group = -1;
    int64_t sentBytes = 0;
    Event ready, done;
  };
  struct Line {
    /// Communicators of this rank's sends and receives; -1: none.
    int out = -1, in = -1;
    Event ready, done;
    /// The events that mark the ends of sends: one for each send after the last
    /// flush that waited for all sends.
    std::vector<Event> sent;
    int64_t sends = 0, flushed = 0;
  };
  int pairGroupOf(int64_t from, int64_t to) const;

  Device &device;
  DeviceLink &link;
  int64_t self;
  /// The index of the communicator of a collective. The key lists its ranks.
  std::map<std::vector<int>, int> groups;
  /// The index of the communicator for messages from one rank to another. The
  /// key is (sender, receiver).
  std::map<std::pair<int64_t, int64_t>, int> pairGroups;
  /// Streams of sends and of receives; unused in a plan without messages.
  Stream out = Stream::Communication, in = Stream::Communication;
  std::vector<Collective> collectives;
  std::vector<Line> lines;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
