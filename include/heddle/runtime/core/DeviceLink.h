//===- DeviceLink.h - Devices that talk without the host --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DEVICELINK_H
#define HEDDLE_RUNTIME_CORE_DEVICELINK_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/core/Device.h"

namespace heddle::rt {

/// Moves bytes between the devices of several ranks, in the order of streams
/// and without the host. What goes wrong is thrown by the device's next
/// `synchronize`. Between two ranks of a group all happens in one order.
class DeviceLink {
public:
  virtual ~DeviceLink() = default;

  /// A name for a group, which one of its ranks makes and tells the others.
  virtual std::string nameGroup() = 0;
  /// Joins the group of that name as rank `position` of so many, and returns
  /// when all of them have come. The result is its number here.
  virtual int join(const std::string &name, int ranks, int position) = 0;
  /// Makes the connections of messages to and from ranks of the group, each of
  /// which makes its end at the same time. The host waits for that; messages
  /// that go such a way later make it wait no more.
  virtual void connect(int group, const std::vector<int> &to,
                       const std::vector<int> &from) = 0;
  /// Another stream of the device.
  virtual Stream addStream() = 0;

  /// Whether it does such a collective, and makes ready for it. The answer is
  /// that of all ranks.
  virtual bool takes(const plan::CollectiveShape &shape,
                     int64_t stagingBytes) = 0;
  /// Submits a collective, as every rank of the group does. The staging memory
  /// is for what is sent in another type than the buffers have.
  virtual void run(Stream stream, int group, const plan::CollectiveShape &shape,
                   Address target, Address source, Address staging,
                   int64_t stagingBytes) = 0;
  /// Submits a message to or from the rank at `peer` of the group.
  virtual void send(Stream stream, int group, int peer, Address data,
                    int64_t bytes) = 0;
  virtual void receive(Stream stream, int group, int peer, Address data,
                       int64_t bytes) = 0;

  /// Ends what waits for others, which then leaves no result. From any thread.
  virtual void abort() = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DEVICELINK_H
