//===- DeviceLink.h - Connections between devices ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface to a library that connects devices, such as NCCL.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DEVICELINK_H
#define HEDDLE_RUNTIME_CORE_DEVICELINK_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/core/Device.h"

namespace heddle::rt {

/// Transports data between the devices of several ranks without the host. A
/// transfer runs in the order of the stream to which it is submitted. Errors
/// are thrown by the device's next `synchronize`. If two members of a group of
/// ranks both take part in several transfers of that group, both must submit
/// these transfers in the same order, even on different streams.
class DeviceLink {
public:
  virtual ~DeviceLink() = default;

  /// Makes a name for a group of ranks. One rank of the group calls this
  /// function and sends the name to the others.
  virtual std::string nameGroup() = 0;
  /// Joins the group with this name as member `position` of `ranks`; returns
  /// when all members have joined. The result is the number by which the other
  /// functions of this link name the group.
  virtual int join(const std::string &name, int ranks, int position) = 0;
  /// Opens the connections for messages to and from members of the group. All
  /// members call it at the same time. The host waits for the connections here,
  /// and therefore not at the first message.
  virtual void connect(int group, const std::vector<int> &to,
                       const std::vector<int> &from) = 0;
  /// Creates another stream of the device.
  virtual Stream addStream() = 0;

  /// Whether the link supports the collective. If it does, the call also
  /// prepares the link for the collective. All ranks of a group get the same
  /// answer.
  virtual bool takes(const plan::CollectiveShape &shape,
                     int64_t stagingBytes) = 0;
  /// Submits a collective; every rank of the group must call it. `staging` is
  /// used if the type that is sent differs from the type of the buffers.
  virtual void run(Stream stream, int group, const plan::CollectiveShape &shape,
                   Address target, Address source, Address staging,
                   int64_t stagingBytes) = 0;
  /// `send` submits a message to member number `peer` of the group, and
  /// `receive` a message from it.
  virtual void send(Stream stream, int group, int peer, Address data,
                    int64_t bytes) = 0;
  virtual void receive(Stream stream, int group, int peer, Address data,
                       int64_t bytes) = 0;

  /// Aborts all submitted work that waits for other ranks. The results of this
  /// work are invalid. May be called from any thread.
  virtual void abort() = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DEVICELINK_H
