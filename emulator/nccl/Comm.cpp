//===- Comm.cpp - A communicator of the emulated NCCL ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Connects the ranks of a communicator over Unix sockets, and exchanges
// messages between them.
//
//===----------------------------------------------------------------------===//

#include "emulator/nccl/Comm.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::nccl;

std::atomic<int64_t> Exchange::begun = 0;

/// Milliseconds after which the receiving thread checks whether it must end.
static constexpr int lookTime = 50;

namespace {
/// The header that precedes the bytes of each message.
struct Header {
  uint64_t kind = 0, bytes = 0;
};

/// The first message between two ranks.
struct Hello {
  int rank = -1;
  char gpu[124] = {};
};
} // namespace

void nccl::complain(const std::string &message) {
  std::fprintf(stderr, "heddle emulate: %s\n", message.c_str());
}

/// The address of a rank's socket, in the abstract namespace (no file).
static std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name,
                                                   int rank) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string text = name + "-" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return {address,
          socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size())};
}

static bool sendWhole(int socket, const void *data, size_t bytes,
                      const std::atomic<bool> &aborted) {
  auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      from += sent;
      bytes -= size_t(sent);
      continue;
    }
    if (aborted || (errno != EAGAIN && errno != EINTR))
      return false;
    pollfd entry = {socket, POLLOUT, 0};
    poll(&entry, 1, lookTime);
  }
  return true;
}

Exchange::Exchange(const std::string &name, int ranks, int rank,
                   const std::string &gpu)
    : self(rank), peers(ranks) {
  const char *isLate = std::getenv("NCCL_RUNTIME_CONNECT");
  ringIsMade = isLate && std::strcmp(isLate, "0") == 0;
  peers[self].gpu = gpu;
  meet(name);
  refuseSharedGpus();
  receiver = std::thread([this] { receive(); });
}

static Hello helloOf(int rank, const std::string &gpu) {
  Hello hello;
  hello.rank = rank;
  std::snprintf(hello.gpu, sizeof hello.gpu, "%s", gpu.c_str());
  return hello;
}

/// Waits until the descriptor is ready. Returns false if `isLate` returns true
/// before that.
template <typename IsLate>
static bool receiveHello(int socket, Hello &hello, IsLate isLate) {
  size_t got = 0;
  while (got < sizeof hello && !isLate()) {
    pollfd entry = {socket, POLLIN, 0};
    if (poll(&entry, 1, lookTime) <= 0)
      continue;
    ssize_t more = recv(socket, reinterpret_cast<char *>(&hello) + got,
                        sizeof hello - got, 0);
    if (more <= 0)
      return false;
    got += size_t(more);
  }
  return got == sizeof hello;
}

/// Fails on every rank if two ranks have the same GPU, as the real NCCL does.
void Exchange::refuseSharedGpus() const {
  for (int rank = 0; rank < size(); ++rank)
    for (int other = 0; other < rank; ++other)
      if (peers[rank].gpu == peers[other].gpu) {
        complain("NCCL: Duplicate GPU detected: rank " + std::to_string(other) +
                 " and rank " + std::to_string(rank) + " both on " +
                 peers[rank].gpu);
        for (const Peer &peer : peers)
          if (peer.socket >= 0)
            close(peer.socket);
        throw InvalidUsage;
      }
}

/// Connects this rank to all others: it connects to lower ranks, and accepts
/// connections from higher ranks.
void Exchange::meet(const std::string &name) {
  const Hello own = helloOf(self, peers[self].gpu);
  Hello hello;
  constexpr std::chrono::seconds patience(60);
  auto deadline = std::chrono::steady_clock::now() + patience;
  auto isLate = [&] { return std::chrono::steady_clock::now() > deadline; };
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto [address, addressBytes] = addressOf(name, self);
  auto give = [&](Result result) {
    close(listener);
    throw result;
  };
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), addressBytes) !=
          0 ||
      listen(listener, size()) != 0)
    give(SystemError);
  for (int other = 0; other < self; ++other) {
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto [address, bytes] = addressOf(name, other);
    while (connect(made, reinterpret_cast<sockaddr *>(&address), bytes) != 0) {
      if (isLate())
        give(RemoteError);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    peers[other].socket = made;
    if (!sendWhole(made, &own, sizeof own, aborted) ||
        !receiveHello(made, hello, isLate))
      give(RemoteError);
    peers[other].gpu = hello.gpu;
  }
  for (int missing = size() - 1 - self; missing > 0;) {
    pollfd entry = {listener, POLLIN, 0};
    if (isLate())
      give(RemoteError);
    if (poll(&entry, 1, lookTime) <= 0)
      continue;
    int made = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (!receiveHello(made, hello, isLate) || hello.rank <= self ||
        hello.rank >= size() || !sendWhole(made, &own, sizeof own, aborted))
      give(RemoteError);
    peers[hello.rank].socket = made;
    peers[hello.rank].gpu = hello.gpu;
    --missing;
  }
  close(listener);
}

Exchange::~Exchange() {
  ending = true;
  receiver.join();
  for (const Peer &peer : peers)
    if (peer.socket >= 0)
      close(peer.socket);
}

void Exchange::receive() {
  std::vector<pollfd> entries;
  while (!ending) {
    entries.clear();
    for (const Peer &peer : peers)
      entries.push_back({peer.isClosed ? -1 : peer.socket, POLLIN, 0});
    if (poll(entries.data(), entries.size(), lookTime) <= 0)
      continue;
    for (size_t i = 0; i < peers.size(); ++i)
      if (entries[i].revents != 0)
        takeIn(peers[i]);
  }
}

void Exchange::takeIn(Peer &peer) {
  std::vector<char> buffer(size_t(1) << 18);
  ssize_t got = recv(peer.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (got <= 0) {
    peer.isClosed = true;
    return;
  }
  peer.coming.append(buffer.data(), size_t(got));
  Header header;
  size_t at = 0;
  while (peer.coming.size() - at >= sizeof header) {
    std::memcpy(&header, peer.coming.data() + at, sizeof header);
    if (peer.coming.size() - at - sizeof header < header.bytes)
      break;
    takeMessage(peer, uint32_t(header.kind),
                peer.coming.data() + at + sizeof header, header.bytes);
    at += sizeof header + header.bytes;
  }
  peer.coming.erase(0, at);
}

void Exchange::takeMessage(Peer &peer, uint32_t kind, const char *first,
                           size_t bytes) {
  if (kind == Posted)
    ++peer.posted;
  else if (kind == MadeIn || kind == MadeOut)
    // This rank and the peer have two connections, one for each direction.
    // MadeIn says that the peer has made the receiving end of connection 1, on
    // which this rank sends. MadeOut says that the peer has made the sending
    // end of connection 0, on which this rank receives.
    peer.isMadeThere[kind == MadeIn] = true;
  else
    peer.messages.push_back({kind, {first, first + bytes}});
}

void Exchange::send(int peer, uint32_t kind, const char *bytes, size_t count) {
  if (peer == self) {
    std::lock_guard<std::mutex> lock(mutex);
    return takeMessage(peers[peer], kind, bytes, count);
  }
  Header header = {kind, count};
  int socket = peers[peer].socket;
  // Take the lock, because the host may send a notice while a stream sends
  // data, and the bytes of two messages must not mix.
  std::lock_guard<std::mutex> lock(sending);
  if (!sendWhole(socket, &header, sizeof header, aborted) ||
      !sendWhole(socket, bytes, count, aborted))
    fail(RemoteError);
}

void Exchange::post(int peer) { send(peer, Posted, nullptr, 0); }

size_t Exchange::posted(int peer) {
  std::lock_guard<std::mutex> lock(mutex);
  if (peers[peer].isClosed && peers[peer].posted == 0 && wrong == Success)
    wrong = RemoteError;
  return peers[peer].posted;
}

void Exchange::meetPosted(int peer, size_t count) {
  std::lock_guard<std::mutex> lock(mutex);
  peers[peer].posted -= count;
}

bool Exchange::isConnected(const PeerDirection &direction) {
  std::lock_guard<std::mutex> lock(mutex);
  return direction.peer == self ||
         peers[direction.peer].isMade[direction.isOut];
}

void Exchange::beginConnecting(const PeerDirection &direction) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    peers[direction.peer].isMade[direction.isOut] = true;
  }
  send(direction.peer, direction.isOut ? MadeOut : MadeIn, nullptr, 0);
}

bool Exchange::finishConnecting(const PeerDirection &direction) {
  constexpr std::chrono::microseconds pause(200);
  while (!aborted && error() == Success) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (peers[direction.peer].isMadeThere[direction.isOut])
        return true;
      if (peers[direction.peer].isClosed)
        return false;
    }
    std::this_thread::sleep_for(pause);
  }
  return false;
}

size_t Exchange::arrived(int peer) {
  std::lock_guard<std::mutex> lock(mutex);
  if (peers[peer].isClosed && peers[peer].messages.empty() && wrong == Success)
    wrong = RemoteError;
  return peers[peer].messages.size();
}

Message Exchange::take(int peer) {
  std::lock_guard<std::mutex> lock(mutex);
  Message message = std::move(peers[peer].messages.front());
  peers[peer].messages.pop_front();
  return message;
}

void Exchange::fail(Result result) {
  std::lock_guard<std::mutex> lock(mutex);
  if (wrong == Success)
    wrong = result;
}

Result Exchange::error() {
  std::lock_guard<std::mutex> lock(mutex);
  return wrong;
}
