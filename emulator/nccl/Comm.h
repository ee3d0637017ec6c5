//===- Comm.h - A communicator of the emulated NCCL -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_NCCL_COMM_H
#define HEDDLE_EMULATOR_NCCL_COMM_H

#include "heddle/runtime/devices/cuda/NcclApi.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace heddle::rt::nccl {

/// What a rank tells another one besides bytes; calls have smaller numbers.
enum Notice : uint32_t {
  Posted = 100, ///< Something is ready to receive.
  MadeIn,       ///< The end of a connection that receives is made.
  MadeOut
};

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
  /// Returns when the bytes are on their direction.
  void send(int peer, uint32_t kind, const char *bytes, size_t count);
  /// How many messages have come from there.
  size_t arrived(int peer);
  Message take(int peer);

  /// Tells a rank that something here is ready to receive from it.
  void post(int peer);
  /// How many of a rank's receives no send of this one has met yet.
  size_t posted(int peer);
  /// That many of them have been met.
  void meetPosted(int peer, size_t count);

  /// One direction between this rank and another.
  struct PeerDirection {
    int peer = 0;
    bool isOut = false;
    bool operator<(const PeerDirection &other) const {
      return std::tie(peer, isOut) < std::tie(other.peer, other.isOut);
    }
  };
  /// Whether messages have gone that way, or begin to now.
  bool isConnected(const PeerDirection &direction);
  /// Tells the other rank that this one makes its end of the connection.
  void beginConnecting(const PeerDirection &direction);
  /// Returns when the other rank has made its end; false: it will not.
  bool finishConnecting(const PeerDirection &direction);

  /// What has gone wrong is kept: the first of it.
  void fail(Result result);
  Result error();
  /// Nobody waits for anything any more.
  void abort() { aborted = true; }
  bool isAborted() const { return aborted; }
  /// Whether the connections of collectives are made. NCCL makes them with the
  /// communicator, or, from 2.22 on, at the first collective unless a variable
  /// says otherwise.
  std::atomic<bool> ringIsMade;
  /// That many batches of calls were begun before, on all communicators.
  static std::atomic<int64_t> begun;

private:
  struct Peer {
    int socket = -1;
    std::string gpu;
    std::string coming; ///< The begin of a message.
    std::deque<Message> messages;
    size_t posted = 0;
    /// Of each direction, the one to this rank first.
    bool isMade[2] = {}, isMadeThere[2] = {};
    bool isClosed = false;
  };
  void meet(const std::string &name);
  void refuseSharedGpus() const;
  void receive();
  void takeIn(Peer &peer);
  void takeMessage(Peer &peer, uint32_t kind, const char *first, size_t bytes);

  const int self;
  std::vector<Peer> peers;
  std::mutex mutex; ///< Of what the thread writes.
  std::mutex sending;
  Result wrong = Success;
  std::atomic<bool> aborted = false, ending = false;
  std::thread receiver;
};

/// Tells the user of something on stderr.
void complain(const std::string &message);

} // namespace heddle::rt::nccl

#endif // HEDDLE_EMULATOR_NCCL_COMM_H
