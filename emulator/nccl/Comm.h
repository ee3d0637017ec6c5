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

/// Kinds of messages without data. Smaller numbers are kinds of NCCL calls that
/// send data.
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

/// A communicator. It has a socket to each other rank, and a thread that
/// receives messages.
class Exchange {
public:
  /// Connects to the other ranks of the communicator `name`. `gpu` names this
  /// rank's GPU and machine. Throws a Result if another rank does not connect
  /// in time. If two ranks have the same GPU, throws a Result on all ranks.
  Exchange(const std::string &name, int ranks, int rank,
           const std::string &gpu);
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;
  ~Exchange();

  int size() const { return int(peers.size()); }
  int rank() const { return self; }
  /// Sends a message to `peer`. Returns when the socket has taken the bytes.
  void send(int peer, uint32_t kind, const char *bytes, size_t count);
  /// The number of messages from `peer` that have arrived, and that `take` has
  /// not returned yet.
  size_t arrived(int peer);
  Message take(int peer);

  /// Tells `peer` that this rank is ready to receive a message from it.
  void post(int peer);
  /// The number of receives that `peer` has posted and that no send of this
  /// rank has matched yet.
  size_t posted(int peer);
  /// Marks `count` of the receives that `peer` has posted as matched by sends
  /// of this rank.
  void meetPosted(int peer, size_t count);

  /// A connection to or from another rank.
  struct PeerDirection {
    int peer = 0;
    bool isOut = false;
    bool operator<(const PeerDirection &other) const {
      return std::tie(peer, isOut) < std::tie(other.peer, other.isOut);
    }
  };
  /// Whether this rank has made its end of the connection. If not,
  /// beginConnecting must be called. A rank's connection to itself always
  /// counts as made.
  bool isConnected(const PeerDirection &direction);
  /// Tells the other rank that this one makes its end of the connection.
  void beginConnecting(const PeerDirection &direction);
  /// Waits until the other rank has made its end of the connection. Returns
  /// false if the other rank never will.
  bool finishConnecting(const PeerDirection &direction);

  /// Records an error. If there is an error already, it is kept instead.
  void fail(Result result);
  Result error();
  /// Ends all waits.
  void abort() { aborted = true; }
  bool isAborted() const { return aborted; }
  /// Whether the connections for collectives are made. NCCL before version 2.22
  /// makes them together with the communicator. From version 2.22 on it makes
  /// them at the first collective, unless an environment variable says
  /// otherwise.
  std::atomic<bool> ringIsMade;
  /// The number of batches of NCCL calls that have begun to run, on all
  /// communicators of this process. A batch fails for a test if
  /// HEDDLE_EMULATE_FAULT gives the batch's position in this count.
  static std::atomic<int64_t> begun;

private:
  struct Peer {
    int socket = -1;
    std::string gpu;
    /// The beginning of a message that has not arrived completely.
    std::string coming;
    std::deque<Message> messages;
    size_t posted = 0;
    /// Which ends of the connections between the peer and this rank are made:
    /// `isMade` is for this rank's end, `isMadeThere` for the peer's end. Index
    /// 0 is the connection from the peer to this rank, and index 1 the opposite
    /// one.
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
