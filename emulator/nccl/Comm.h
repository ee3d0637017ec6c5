//===- Comm.h - A communicator of the emulated NCCL -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An NCCL communicator over sockets between the ranks, which are all on one
// machine.
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

/// Messages without data. Smaller numbers are kinds of calls.
enum Notice : uint32_t {
  Posted = 100, ///< A receive is ready.
  MadeIn,       ///< The receiving end of a connection is made.
  MadeOut
};

/// Data from another rank, and the kind of call that sent it.
struct Message {
  uint32_t kind = 0;
  std::vector<char> bytes;
};

/// A communicator: a socket to each other rank, and a thread that receives.
class Exchange {
public:
  /// Connects to the other ranks of the communicator `name`. `gpu` names this
  /// rank's GPU and machine. Throws a Result if a rank does not come in time,
  /// or, on all ranks, if two have the same GPU.
  Exchange(const std::string &name, int ranks, int rank,
           const std::string &gpu);
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;
  ~Exchange();

  int size() const { return int(peers.size()); }
  int rank() const { return self; }
  /// Returns when the socket has taken the bytes.
  void send(int peer, uint32_t kind, const char *bytes, size_t count);
  /// The number of messages of `peer` that have arrived and were not taken.
  size_t arrived(int peer);
  Message take(int peer);

  /// Tells `peer` that a receive from it is ready here.
  void post(int peer);
  /// The number of receives that `peer` has posted and that no send of this
  /// rank has matched yet.
  size_t posted(int peer);
  /// Marks `count` receives that `peer` has posted as matched.
  void meetPosted(int peer, size_t count);

  /// A connection to or from another rank.
  struct PeerDirection {
    int peer = 0;
    bool isOut = false;
    bool operator<(const PeerDirection &other) const {
      return std::tie(peer, isOut) < std::tie(other.peer, other.isOut);
    }
  };
  /// Whether the connection is made, or will be by beginConnecting.
  bool isConnected(const PeerDirection &direction);
  /// Tells the other rank that this one makes its end of the connection.
  void beginConnecting(const PeerDirection &direction);
  /// Returns when the other rank has made its end; false if it never will.
  bool finishConnecting(const PeerDirection &direction);

  /// Records an error. The first one is kept.
  void fail(Result result);
  Result error();
  /// Ends all waits.
  void abort() { aborted = true; }
  bool isAborted() const { return aborted; }
  /// Whether the connections of collectives are made. NCCL makes them with the
  /// communicator, or, from version 2.22 on, at the first collective unless a
  /// variable says otherwise.
  std::atomic<bool> ringIsMade;
  /// Number of batches that have begun, on all communicators.
  static std::atomic<int64_t> begun;

private:
  struct Peer {
    int socket = -1;
    std::string gpu;
    std::string coming; ///< Start of a message that is still incomplete.
    std::deque<Message> messages;
    size_t posted = 0;
    /// Whether this end and the peer's end of a connection are made: [0] for
    /// the connection from the peer to this rank, [1] for the other direction.
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
  std::mutex mutex; ///< Guards what the receiving thread writes.
  std::mutex sending;
  Result wrong = Success;
  std::atomic<bool> aborted = false, ending = false;
  std::thread receiver;
};

/// Prints a message to stderr.
void complain(const std::string &message);

} // namespace heddle::rt::nccl

#endif // HEDDLE_EMULATOR_NCCL_COMM_H
