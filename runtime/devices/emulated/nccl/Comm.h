//===- Comm.h - A communicator of the emulated NCCL -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATED_NCCL_COMM_H
#define HEDDLE_RUNTIME_DEVICES_EMULATED_NCCL_COMM_H

#include "runtime/devices/cuda/NcclApi.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heddle::rt::nccl {

/// Bytes from another rank, and the call that sent them.
struct Message {
  uint32_t kind = 0;
  std::vector<char> bytes;
};

/// A communicator: a socket between any two of its ranks, which are on one
/// machine, and a thread that takes what comes.
class Exchange {
public:
  /// Meets the other ranks under that name. `gpu` says which one this rank has,
  /// and on which machine. Throws a Result when they do not come, or when two
  /// have one GPU: on all of them.
  Exchange(const std::string &name, int ranks, int rank,
           const std::string &gpu);
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;
  ~Exchange();

  int size() const { return int(peers.size()); }
  int rank() const { return self; }
  /// Returns when the bytes are on their way.
  void send(int peer, uint32_t kind, const char *bytes, size_t count);
  /// How many messages have come from there.
  size_t arrived(int peer);
  Message take(int peer);

  /// What has gone wrong is kept: the first of it.
  void fail(Result result);
  Result error();
  /// Nobody waits for anything any more.
  void abort() { aborted = true; }
  bool isAborted() const { return aborted; }
  /// That many batches of calls were begun before, on all communicators.
  static std::atomic<int64_t> begun;

private:
  struct Peer {
    int socket = -1;
    std::string gpu;
    std::string coming; ///< The begin of a message.
    std::deque<Message> messages;
    bool isClosed = false;
  };
  void meet(const std::string &name);
  void refuseSharedGpus() const;
  void receive();
  void takeIn(Peer &peer);

  const int self;
  std::vector<Peer> peers;
  std::mutex mutex; ///< Of what the thread writes.
  Result wrong = Success;
  std::atomic<bool> aborted = false, ending = false;
  std::thread receiver;
};

/// Tells the user of something on stderr.
void complain(const std::string &message);

} // namespace heddle::rt::nccl

#endif // HEDDLE_RUNTIME_DEVICES_EMULATED_NCCL_COMM_H
