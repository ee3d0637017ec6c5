//===- Mailbox.h - Receives and the messages that wait for them -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_MAILBOX_H
#define HEDDLE_RUNTIME_COMM_MAILBOX_H

#include "heddle/runtime/comm/Transport.h"

#include <memory>

namespace heddle::rt {

/// Pairs the messages that arrive at one rank with its receives, by sender and
/// tag, in order. Buffers of messages that come early are kept for the next
/// ones. Not locked: the transport does that.
class Mailbox {
public:
  struct Receive {
    int peer = 0, tag = 0;
    void *data = nullptr;
    int64_t bytes = 0;
    int64_t arrived = -1; ///< Size of the message, once it is complete.
  };
  /// A message on its way: its bytes go to `data`, then `complete` is called.
  struct Arrival {
    int peer = 0, tag = 0;
    int64_t bytes = 0;
    uint8_t *data = nullptr;
    Receive *receive = nullptr; ///< Null: nobody asked for it yet.
    bool isComplete = false;
    std::vector<uint8_t> early; ///< Where `data` points without a receive.
  };

  Receive *post(int peer, int tag, void *data, int64_t bytes);
  Arrival *begin(int peer, int tag, int64_t bytes);
  void complete(Arrival *arrival);
  /// Gives a receive back that is done, or will never be.
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

/// Throws H0920: a message of another size than its receive.
[[noreturn]] void failMessageSize(int peer, int64_t bytes, int64_t expected);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_MAILBOX_H
