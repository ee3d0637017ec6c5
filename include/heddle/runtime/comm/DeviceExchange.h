//===- DeviceExchange.h - Collectives between devices (NCCL) ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Communication between devices by their own library, NCCL for GPUs, on
// streams. The class Ranks uses it for all collectives and messages that the
// library supports; the host runs the rest.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
#define HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/comm/CommLog.h"
#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/core/Communication.h"
#include "heddle/runtime/core/DeviceLink.h"
#include "heddle/runtime/io/Peers.h"

#include <functional>
#include <map>

namespace heddle::rt {

/// Runs collectives and messages of a plan directly between devices.
/// Collectives run on the communication stream, after the work that was
/// submitted to the computation stream before. The computation stream, not the
/// host, waits for their results. Messages have two more streams, one for all
/// sends and one for all receives of a rank, each in the plan's order. A send
/// may block its stream until the peer's receive runs; the compiler's prove
/// phase refuses plans in which such waits form a cycle. Each ordered pair of a
/// sender and a receiver has a communicator, because NCCL runs the operations
/// of one communicator in order, even on different streams.
class DeviceExchange {
public:
  /// Creates the communicators of `plan`; every rank does so at the same time.
  DeviceExchange(const plan::Plan &plan, Device &device, DeviceLink &link,
                 io::Peers &ranks);

  /// Whether the devices can run this collective directly. If not, the host
  /// runs it.
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
  int64_t addLine(const std::string &axis, int64_t peer);
  void send(int64_t line, Address data, int64_t bytes);
  void receive(int64_t line, Address data, int64_t bytes);
  /// Makes the computation stream wait for the sends on this line (this rank's
  /// messages of a channel to one peer), except for the last `count` sends, so
  /// that later computation may overwrite the sent data.
  void flush(int64_t line, int64_t count);

  /// Adds all later collectives and messages to `log`. To measure them, `start`
  /// and `receive` then wait for the device. Graphs that were captured before
  /// are not logged.
  void logTo(CommLog *newLog) { log = newLog; }

  /// Bytes that this rank has sent between devices.
  int64_t bytesSent = 0;

private:
  struct Collective {
    const plan::CollectiveShape *shape = nullptr;
    CollectiveBuffers buffers;
    int group = -1;
    int64_t sentBytes = 0;
    Event ready, done;
    std::string axes; ///< The mesh axes of the group.
  };
  struct Line {
    std::string axis; ///< The mesh axis along which messages are sent.
    /// The indices of the communicators of this rank's sends and of its
    /// receives; -1 if there are none.
    int out = -1, in = -1;
    Event ready, done;
    /// Events that are recorded at the ends of sends: one for each send since
    /// the last `flush` that waited for all sends.
    std::vector<Event> sent;
    int64_t sends = 0, flushed = 0;
  };
  int pairGroupOf(int64_t from, int64_t to) const;
  void run(const Collective &started);
  /// Runs `submit`, which submits work to `stream`. Returns its duration.
  double measure(Stream stream, const std::function<void()> &submit);

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
  CommLog *log = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_DEVICEEXCHANGE_H
