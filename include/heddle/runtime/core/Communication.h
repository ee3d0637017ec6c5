//===- Communication.h - Communication of a rank ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface by which command lists send data between ranks. The class Ranks
// (runtime/app) implements it over MPI, TCP or NCCL.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_COMMUNICATION_H
#define HEDDLE_RUNTIME_CORE_COMMUNICATION_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/HostMirror.h"

#include <cstdint>

namespace heddle::rt {

/// The buffers of one collective.
struct CollectiveBuffers {
  Address target;
  Address source;
  Address staging;
  int64_t targetBytes = 0;
  int64_t sourceBytes = 0;
  int64_t stagingBytes = 0; ///< 0 if the plan has no staging buffer for it.
};

/// The communication of one rank. The collectives and channels of a plan are
/// registered when the plan is loaded, so that a training step allocates
/// nothing. All functions throw a UserError when another rank is lost.
class Communication {
public:
  virtual ~Communication() = default;

  /// Sets the object through which the host accesses the memory of the device.
  /// All addresses in later calls must be in this memory.
  virtual void use(HostMirror &memory) = 0;
  /// Registers a collective on these buffers. The result is the handle that
  /// `start` and `wait` take. All ranks of a group must register their
  /// collectives in the same order.
  virtual int64_t addCollective(const plan::Collective &collective,
                                const CollectiveBuffers &buffers) = 0;
  /// Whether devices run the collective without the host. If they do, `start`
  /// and `wait` only submit work to the device's streams.
  virtual bool isOfDevices(int64_t collective) const { return false; }
  /// Whether devices send and receive messages without the host.
  virtual bool sendsFromDevices() const { return false; }
  /// The number of bytes that devices have sent, counted when `start` and
  /// `send` are called.
  virtual int64_t bytesOfDevices() const { return 0; }
  /// Adds `bytes` to the result of `bytesOfDevices`. The replay of a captured
  /// graph does not call `send`, so the caller adds the bytes of each replay
  /// here. Capturing calls `send` without sending, so the caller subtracts the
  /// bytes of the capture.
  virtual void countOfDevices(int64_t bytes) {}
  /// Registers a channel. The result is the handle that `send`, `receive` and
  /// `flush` take. Equal channels have the same handle.
  virtual int64_t addChannel(const plan::Channel &channel) = 0;

  /// Starts a collective and returns at once.
  virtual void start(int64_t collective) = 0;
  /// Waits until the collective with this handle is done. If it was started
  /// several times, waits for the last start.
  virtual void wait(int64_t collective) = 0;
  /// Starts a send; the bytes must not change until a flush.
  virtual void send(int64_t channel, Address data, int64_t bytes) = 0;
  /// Waits for the next message of the channel, and writes it to `data`.
  virtual void receive(int64_t channel, Address data, int64_t bytes) = 0;
  /// Waits until at most `count` sends of the channel are still in progress.
  virtual void flush(int64_t channel, int64_t count) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMUNICATION_H
