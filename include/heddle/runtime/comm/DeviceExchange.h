//===- DeviceExchange.h - A plan's exchange between devices -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Collectives and messages of a plan that the devices of its ranks do by
/// themselves. Collectives are done by the stream for communication; begin
/// when the stream for computation has come to them; and are waited for by that
/// stream, not by the host. Each message's channel has a stream of its own and
/// a group of the two ranks, so that no message waits for one of another
/// channel: what a plan that waits for messages can do, streams can.
class DeviceExchange {
public:
  /// Makes the groups of `plan`: every rank does so at the same time.
  DeviceExchange(const plan::Plan &plan, Device &device, DeviceLink &link,
                 io::Peers &ranks);

  /// Whether the devices do that collective.
  bool takes(const plan::CollectiveShape &shape,
             const CollectiveBuffers &buffers) const;
  /// The number of a collective that they do. The shape must stay.
  int64_t add(const plan::CollectiveShape &shape, const Communicator &group,
              const CollectiveBuffers &buffers);
  void start(int64_t collective);
  void wait(int64_t collective);

  /// The number of a line: messages between this rank and `peer`.

  int64_t addLine(const std::string &channel, int64_t peer);
  void send(int64_t line, Address data, int64_t bytes);
  void receive(int64_t line, Address data, int64_t bytes);
  /// What is computed from now on comes after all sends but the last `count`.
  void flush(int64_t line, int64_t count);

  /// Payload that this rank has sent so.
  int64_t bytesSent = 0;

private:
  struct Collective {
    const plan::CollectiveShape *shape = nullptr;
    CollectiveBuffers buffers;
    int group = -1;
    int64_t sentBytes = 0;
    Event ready, done;
  };
  /// A way that messages go, in one direction.
  struct Way {
    int group = -1; ///< None: no message goes it.
    Stream stream = Stream::Communication;
  };
  struct Line {
    Way out, in;
    Event ready, done;
    std::vector<Event> sent; ///< Of the sends since the last full flush.
    int64_t sends = 0, flushed = 0;
  };
  /// Of which channel, from and to which rank.
  using Edge = std::tuple<std::string, int64_t, int64_t>;
  Way wayOf(const std::string &channel, int64_t from, int64_t to) const;

  Device &device;
  DeviceLink &link;
  int64_t self;
  std::map<std::vector<int>, int> groups; ///< By the ranks.
  std::map<Edge, Way> ways;
  std::vector<Collective> collectives;
  std::vector<Line> lines;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
