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
/// stream, not by the host. All that a rank sends is work of one stream, all
/// that it receives of another one, each in the plan's order; a send may wait
/// there for its receive. The prove phase refuses plans of which that makes a
/// circle. From one rank to another there is a group of the two: NCCL does
/// what one communicator has to do in one order, on whatever streams.
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

  /// The number of a line: messages of a channel between this rank and `peer`.
  int64_t addLine(int64_t peer);
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
  struct Line {
    int out = -1, in = -1; ///< The groups; -1: no message goes that way.
    Event ready, done;
    std::vector<Event> sent; ///< Of the sends since the last full flush.
    int64_t sends = 0, flushed = 0;
  };
  int wayOf(int64_t from, int64_t to) const;

  Device &device;
  DeviceLink &link;
  int64_t self;
  std::map<std::vector<int>, int> groups; ///< By the ranks.
  /// By from and to which rank messages go.
  std::map<std::pair<int64_t, int64_t>, int> ways;
  /// Of messages; unless there are some, streams that nothing is given to.
  Stream out = Stream::Communication, in = Stream::Communication;
  std::vector<Collective> collectives;
  std::vector<Line> lines;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
