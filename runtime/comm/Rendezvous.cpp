//===- Rendezvous.cpp - Connect ranks without MPI -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handshake of ranks over TCP: rank 0 collects the addresses of all ranks
// and sends them to everybody, and then each pair connects.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Rendezvous.h"

#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <thread>

using namespace heddle;
using namespace heddle::rt;

namespace {
/// The first message of a rank on each connection.
struct Hello {
  uint64_t magic;
  uint64_t job;
  int32_t rank, size;
  int32_t port; ///< Port on which this rank listens.
  int32_t unused;
};
/// Address of a rank: IPv4 and port.
struct RankAddress {
  uint32_t address, port;
};
} // namespace

static constexpr uint64_t helloMagic = 0x314F4C4C45484448; // "HDHELLO1"
static constexpr int numPorts = 16;
/// Milliseconds to wait for a client that connects and says nothing.
static constexpr int answerTime = 2000;

/// FNV-1a hash.
static uint64_t hashText(const std::string &text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001B3;
  return hash;
}

static Hello makeHello(const Launch &launch, int port) {
  return {helloMagic, hashText(launch.job), launch.rank, launch.size, port, 0};
}

static bool isOfThisJob(const Hello &hello, const Hello &own) {
  return hello.magic == own.magic && hello.job == own.job &&
         hello.size == own.size && hello.rank >= 0 && hello.rank < own.size;
}

[[noreturn]] static void failMissing(const Launch &launch,
                                     const std::string &what) {
  fail("H0225",
       "rank " + std::to_string(launch.rank) + " of " +
           std::to_string(launch.size) + " (" + launch.launcher + "): " + what,
       "start all ranks with the same MASTER_ADDR and MASTER_PORT, where the "
       "port can be reached from every host; --join-timeout SECONDS gives them "
       "more time");
}

/// Lists the missing ranks, as "1, 2, 5 and 9 more".
static std::string listMissing(const std::vector<Socket> &peers, int first) {
  std::string text;
  int shown = 0, more = 0;
  for (int rank = first; rank < static_cast<int>(peers.size()); ++rank) {
    if (peers[rank])
      continue;
    if (++shown > 8)
      ++more;
    else
      text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return more ? text + " and " + std::to_string(more) + " more" : text;
}

/// Accepts connections until all ranks from `first` on are connected. Closes
/// connections of clients that do not belong to the job.
static void acceptRanks(const Launch &launch, const Socket &listener, int first,
                        int64_t deadline, std::vector<Socket> &peers,
                        std::vector<RankAddress> &addresses,
                        const std::string &where) {
  Hello own = makeHello(launch, 0);
  int missing = launch.size - first;
  while (missing > 0) {
    int64_t left = deadline - nowMilliseconds();
    if (left <= 0)
      failMissing(launch, "rank " + listMissing(peers, first) +
                              " did not come to " + where);
    Socket socket = acceptFrom(listener, static_cast<int>(left));
    // The peer says hello, this rank answers, and the peer says hello again.
    // The last message shows that the peer did not give up before the answer.
    Hello hello = {}, again = {};
    if (!socket || !receiveAll(socket, &hello, sizeof hello, answerTime) ||
        !isOfThisJob(hello, own) || hello.rank < first || peers[hello.rank] ||
        !sendAll(socket, &own, sizeof own, answerTime) ||
        !receiveAll(socket, &again, sizeof again, answerTime))
      continue;
    addresses[hello.rank] = {inet_addr(peerAddress(socket).c_str()),
                             static_cast<uint32_t>(hello.port)};
    peers[hello.rank] = std::move(socket);
    --missing;
  }
}

/// Connects to a rank that listens at this address, and says hello. Returns an
/// empty Socket unless rank `rank` of this job answers.
static Socket greet(const Launch &launch, const std::string &address, int port,
                    int ownPort, int rank) {
  Hello own = makeHello(launch, ownPort), answer = {};
  Socket socket = connectTo(address, port, answerTime);
  if (!socket || !sendAll(socket, &own, sizeof own, answerTime) ||
      !receiveAll(socket, &answer, sizeof answer, answerTime) ||
      !isOfThisJob(answer, own) || answer.rank != rank ||
      !sendAll(socket, &own, sizeof own, answerTime))
    return Socket();
  return socket;
}

static void meetAsFirst(const Launch &launch, int64_t deadline,
                        std::vector<Socket> &peers) {
  Socket listener;
  int port = launch.port;
  for (; port < launch.port + numPorts && !listener; ++port)
    listener = listenOn(port, launch.size);
  std::string where = launch.address + ":" + std::to_string(port - 1);
  if (!listener)
    failMissing(launch, "ports " + std::to_string(launch.port) + " to " +
                            std::to_string(port - 1) + " are taken");
  std::vector<RankAddress> addresses(launch.size);
  acceptRanks(launch, listener, 1, deadline, peers, addresses, where);
  for (int rank = 1; rank < launch.size; ++rank)
    if (!sendAll(peers[rank], addresses.data(),
                 addresses.size() * sizeof(RankAddress), answerTime))
      failMissing(launch, "rank " + std::to_string(rank) + " went away");
}

static void meetAsOther(const Launch &launch, int64_t deadline,
                        std::vector<Socket> &peers) {
  Socket listener = listenOn(0, launch.size);
  int ownPort = portOf(listener);
  std::string where = launch.address + ":" + std::to_string(launch.port);
  for (int port = launch.port; !peers[0]; ++port) {
    if (port == launch.port + numPorts) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      port = launch.port;
    }
    peers[0] = greet(launch, launch.address, port, ownPort, 0);
    if (!peers[0] && nowMilliseconds() > deadline)
      failMissing(launch, "nobody answers for rank 0 at " + where);
  }
  std::vector<RankAddress> addresses(launch.size);
  int64_t left = std::max<int64_t>(0, deadline - nowMilliseconds());
  if (!receiveAll(peers[0], addresses.data(),
                  addresses.size() * sizeof(RankAddress),
                  static_cast<int>(left) + answerTime))
    failMissing(launch,
                "rank 0 at " + where + " did not find all ranks, or went away");
  for (int rank = 1; rank < launch.rank; ++rank) {
    in_addr address = {addresses[rank].address};
    std::string text = inet_ntoa(address);
    while (!(peers[rank] =
                 greet(launch, text, addresses[rank].port, ownPort, rank)))
      if (nowMilliseconds() > deadline)
        failMissing(launch, "no connection to rank " + std::to_string(rank) +
                                " at " + text);
  }
  acceptRanks(launch, listener, launch.rank + 1, deadline, peers, addresses,
              "port " + std::to_string(ownPort) + " of rank " +
                  std::to_string(launch.rank));
}

std::vector<Socket> rt::meet(const Launch &launch, int64_t milliseconds) {
  std::vector<Socket> peers(launch.size);
  int64_t deadline = nowMilliseconds() + milliseconds;
  if (launch.rank == 0)
    meetAsFirst(launch, deadline, peers);
  else
    meetAsOther(launch, deadline, peers);
  for (Socket &peer : peers)
    if (peer)
      makeNonBlocking(peer);
  return peers;
}
