//===- Communication.h - What ranks say to each other -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
  int64_t stagingBytes = 0; ///< 0 when the plan gives it none.
};

/// One rank's part in a plan's communication. What a plan will ask for is
/// announced when it is loaded; a step then allocates nothing. All functions
/// throw a UserError when a peer is lost.
class Communication {
public:
  virtual ~Communication() = default;

  /// All addresses from here on are in this memory.
  virtual void use(HostMirror &memory) = 0;
  /// Announces a collective on these buffers, which every rank of its group
  /// announces in the same order; the result is its number.
  virtual int64_t addCollective(const plan::Collective &collective,
                                const CollectiveBuffers &buffers) = 0;
  /// Whether the devices do it without the host: then `start` and `wait` only
  /// submit.
  virtual bool isOfDevices(int64_t collective) const { return false; }
  /// The same for all messages.
  virtual bool sendsFromDevices() const { return false; }
  /// What `start` and `send` have counted as sent by the devices.
  virtual int64_t bytesOfDevices() const { return 0; }
  /// A device has sent that much once more, of what it captured.
  virtual void countOfDevices(int64_t bytes) {}
  /// The number of a channel; the same one for equal channels.
  virtual int64_t addChannel(const plan::Channel &channel) = 0;

  /// Begins a collective and returns at once.
  virtual void start(int64_t collective) = 0;
  /// Returns when the collective is done that was started last by this number.
  virtual void wait(int64_t collective) = 0;
  /// Begins to send; the bytes must stay as they are until a flush.
  virtual void send(int64_t channel, Address data, int64_t bytes) = 0;
  /// Returns when the next message of the channel stands at `data`.
  virtual void receive(int64_t channel, Address data, int64_t bytes) = 0;
  /// Returns when at most `count` sends of the channel are under way.
  virtual void flush(int64_t channel, int64_t count) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMUNICATION_H
