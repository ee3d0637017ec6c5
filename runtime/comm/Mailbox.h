//===- Mailbox.h - Match messages with receives -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches messages with receives, for the transports TCP and threads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_MAILBOX_H
#define HEDDLE_RUNTIME_COMM_MAILBOX_H

#include "heddle/runtime/comm/Transport.h"

#include <memory>

namespace heddle::rt {

/// Matches messages that arrive at one rank with its receives, by sender and
/// tag, in order. Buffers of messages that arrive before their receive are
/// reused. Not thread-safe: the transport locks it.
class Mailbox {
public:
  struct Receive {
    int peer = 0, tag = 0;
    void *data = nullptr;
    int64_t bytes = 0;
    /// Size of the received message in bytes; -1 until it is complete.
    int64_t arrived = -1;
  };
  /// A message that is arriving: its bytes go to `data`, then `complete` is
  /// called.
  struct Arrival {
    int peer = 0, tag = 0;
    int64_t bytes = 0;
    uint8_t *data = nullptr;
    Receive *receive = nullptr; ///< Null: no receive was posted yet.
    bool isComplete = false;
    /// Storage of `data` if there is no receive yet.
    std::vector<uint8_t> early;
  };

  Receive *post(int peer, int tag, void *data, int64_t bytes);
  Arrival *begin(int peer, int tag, int64_t bytes);
  void complete(Arrival *arrival);
  /// Releases a receive that is done or abandoned.
  void release(Receive *receive);

private:
  void deliver(Arrival *arrival);

  std::vector<Receive *> posted;
  std::vector<Arrival *> early;
  std::vector<Receive *> freeReceives;
  std::vector<Arrival *> freeArrivals;
  std::vector<std::unique_ptr<Receive>> receives;
  std::vector<std::unique_ptr<Arrival>> arrivals;
};

/// Throws H0920 because a message and its receive differ in size.
[[noreturn]] void failMessageSize(int peer, int64_t bytes, int64_t expected);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_MAILBOX_H
