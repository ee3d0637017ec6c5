//===- Communication.h - Communication of a rank ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface between command lists and what transports data between ranks
// (runtime/comm, NCCL).
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

/// The communication of one rank in a plan. Everything that a plan will use is
/// announced when it is loaded, so that steps allocate nothing. All functions
/// throw a UserError when another rank is lost.
class Communication {
public:
  virtual ~Communication() = default;

  /// Sets the mirror of the memory in which all addresses of later calls lie.
  virtual void use(HostMirror &memory) = 0;
  /// Announces a collective on these buffers and returns its number, by which
  /// `start` and `wait` name it. All ranks of a group must announce their
  /// collectives in the same order.
  virtual int64_t addCollective(const plan::Collective &collective,
                                const CollectiveBuffers &buffers) = 0;
  /// Whether devices run the collective without the host: `start` and `wait`
  /// then only submit.
  virtual bool isOfDevices(int64_t collective) const { return false; }
  /// Whether devices send and receive messages without the host.
  virtual bool sendsFromDevices() const { return false; }
  /// The number of bytes that devices have sent, counted when `start` and
  /// `send` are called.
  virtual int64_t bytesOfDevices() const { return 0; }
  /// Adds to the count of bytes that devices have sent, when a captured graph
  /// with sends is run again. `bytes` may be negative.
  virtual void countOfDevices(int64_t bytes) {}
  /// Announces a channel and returns its number, by which `send`, `receive` and
  /// `flush` name it. Equal channels have the same number.
  virtual int64_t addChannel(const plan::Channel &channel) = 0;

  /// Starts a collective and returns at once.
  virtual void start(int64_t collective) = 0;
  /// Waits until the collective with this number is done. If it was started
  /// several times, this is its last start.
  virtual void wait(int64_t collective) = 0;
  /// Starts a send; the bytes must not change until a flush.
  virtual void send(int64_t channel, Address data, int64_t bytes) = 0;
  /// Waits for the next message of the channel, and writes it to `data`.
  virtual void receive(int64_t channel, Address data, int64_t bytes) = 0;
  /// Waits until at most `count` sends of the channel are not yet done.
  virtual void flush(int64_t channel, int64_t count) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMUNICATION_H
