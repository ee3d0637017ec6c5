//===- Tcp.cpp - Messages over sockets ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transport over TCP: one connection for each pair of ranks, and a thread
// that moves the bytes, so that messages make progress while the ranks compute.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Rendezvous.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "runtime/comm/Mailbox.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {
struct Header {
  int32_t tag = 0;
  int32_t unused = 0;
  int64_t bytes = 0;
};

struct Outgoing {
  Header header;
  const uint8_t *data = nullptr;
  int64_t sent = 0; ///< Bytes of header and data.
  bool isDone = false;
};

struct Peer {
  Socket socket;
  std::vector<Outgoing *>
      queue;     ///< Messages that are not sent completely, oldest first.
  Header header; ///< Header of the message that is arriving.
  int64_t received = 0; ///< Bytes of header and data.
  Mailbox::Arrival *arrival = nullptr;
};

class TcpTransport : public Transport {
public:
  TcpTransport(const Launch &launch, std::vector<Socket> sockets);
  ~TcpTransport() override { stop(); }

  int rank() const override { return self; }
  int size() const override { return static_cast<int>(peers.size()); }
  const char *name() const override { return "TCP"; }
  bool isConcurrent() const override { return true; }
  bool waitsAsleep() const override { return true; }
  Request isend(int peer, int tag, const void *data, int64_t bytes) override;
  Request irecv(int peer, int tag, void *data, int64_t bytes) override;
  bool test(Request &request) override;
  void wait(Request &request) override;
  void finish() override;
  void abort(int status) override { _exit(status); }

private:
  void work();
  void stop();
  void wake();
  /// `write` sends, and `read` receives, as much as possible without blocking.
  /// Both return false when the connection has ended.
  bool write(Peer &peer);
  bool read(Peer &peer);
  bool isDone(const Request &request) const;
  void release(Request &request);

  int self;
  std::vector<Peer> peers;
  Mailbox mailbox;
  std::vector<std::unique_ptr<Outgoing>> outgoing;
  std::vector<Outgoing *> freeOutgoing;
  bool stopping = false;
  std::mutex mutex; ///< Guards the members that are declared before it.
  std::condition_variable progressed;
  Socket wakeup;
  std::thread worker;
};
} // namespace

TcpTransport::TcpTransport(const Launch &launch, std::vector<Socket> sockets)
    : self(launch.rank), peers(sockets.size()),
      wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < sockets.size(); ++i)
    peers[i].socket = std::move(sockets[i]);
  worker = std::thread([this] { work(); });
}

void TcpTransport::wake() {
  uint64_t one = 1;
  // The write only fails when the eventfd's counter is full; then the thread
  // wakes up anyway.
  (void)!::write(wakeup.get(), &one, sizeof one);
}

void TcpTransport::stop() {
  if (!worker.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake();
  worker.join();
}

Request TcpTransport::isend(int peer, int tag, const void *data,
                            int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  if (peer == self) {
    Mailbox::Arrival *arrival = mailbox.begin(self, tag, bytes);
    if (bytes > 0)
      std::memcpy(arrival->data, data, bytes);
    mailbox.complete(arrival);
    progressed.notify_all();
    return {0, bytes, peer, false};
  }
  if (freeOutgoing.empty()) {
    outgoing.push_back(std::make_unique<Outgoing>());
    freeOutgoing.push_back(outgoing.back().get());
  }
  Outgoing *message = freeOutgoing.back();
  freeOutgoing.pop_back();
  *message = {{tag, 0, bytes}, static_cast<const uint8_t *>(data), 0, false};
  Peer &to = peers[peer];
  to.queue.push_back(message);
  if (to.socket && to.queue.size() == 1 && write(to) && !to.queue.empty())
    wake();
  return {reinterpret_cast<uint64_t>(message), bytes, peer, false};
}

Request TcpTransport::irecv(int peer, int tag, void *data, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  Mailbox::Receive *receive = mailbox.post(peer, tag, data, bytes);
  return {reinterpret_cast<uint64_t>(receive), bytes, peer, true};
}

bool TcpTransport::isDone(const Request &request) const {
  if (request.storage == 0)
    return true;
  if (request.receives)
    return reinterpret_cast<Mailbox::Receive *>(request.storage)->arrived >= 0;
  return reinterpret_cast<Outgoing *>(request.storage)->isDone;
}

/// Releases a request that is done. If the request is not done, the connection
/// to its peer was lost: throws H0424.
void TcpTransport::release(Request &request) {
  bool done = isDone(request);
  int64_t bytes = request.bytes;
  if (request.storage && request.receives) {
    auto *receive = reinterpret_cast<Mailbox::Receive *>(request.storage);
    bytes = receive->arrived;
    mailbox.release(receive);
  } else if (request.storage && done) {
    freeOutgoing.push_back(reinterpret_cast<Outgoing *>(request.storage));
  }
  request.storage = 0;
  if (!done)
    fail("H0424", "rank " + std::to_string(self) + ": the connection to rank " +
                      std::to_string(request.peer) + " is broken");
  if (bytes != request.bytes)
    failMessageSize(request.peer, bytes, request.bytes);
}

bool TcpTransport::test(Request &request) {
  std::lock_guard<std::mutex> lock(mutex);
  bool isOver = request.peer != self && !peers[request.peer].socket;
  if (!isDone(request) && !isOver)
    return false;
  release(request);
  return true;
}

void TcpTransport::wait(Request &request) {
  std::unique_lock<std::mutex> lock(mutex);
  progressed.wait(lock, [&] {
    return isDone(request) ||
           (request.peer != self && !peers[request.peer].socket);
  });
  release(request);
}

bool TcpTransport::write(Peer &peer) {
  constexpr int64_t headerBytes = sizeof(Header);
  while (!peer.queue.empty()) {
    Outgoing &message = *peer.queue.front();
    iovec parts[2];
    int count = 0;
    if (message.sent < headerBytes)
      parts[count++] = {reinterpret_cast<char *>(&message.header) +
                            message.sent,
                        size_t(headerBytes - message.sent)};
    int64_t dataSent = std::max<int64_t>(0, message.sent - headerBytes);
    if (dataSent < message.header.bytes)
      parts[count++] = {const_cast<uint8_t *>(message.data) + dataSent,
                        size_t(message.header.bytes - dataSent)};
    msghdr call = {};
    call.msg_iov = parts;
    call.msg_iovlen = count;
    ssize_t sent = sendmsg(peer.socket.get(), &call, MSG_NOSIGNAL);
    if (sent < 0)
      return errno == EAGAIN || errno == EINTR;
    message.sent += sent;
    if (message.sent == headerBytes + message.header.bytes) {
      message.isDone = true;
      peer.queue.erase(peer.queue.begin());
    }
  }
  return true;
}

bool TcpTransport::read(Peer &peer) {
  constexpr int64_t headerBytes = sizeof(Header);
  while (true) {
    bool inHeader = peer.received < headerBytes;
    uint8_t *into =
        inHeader ? reinterpret_cast<uint8_t *>(&peer.header) + peer.received
                 : peer.arrival->data + peer.received - headerBytes;
    int64_t end = headerBytes + (inHeader ? 0 : peer.header.bytes);
    if (peer.received < end) {
      ssize_t got =
          recv(peer.socket.get(), into, end - peer.received, MSG_DONTWAIT);
      if (got == 0)
        return false;
      if (got < 0)
        return errno == EAGAIN || errno == EINTR;
      peer.received += got;
    }
    if (inHeader && peer.received == headerBytes)
      peer.arrival = mailbox.begin(static_cast<int>(&peer - peers.data()),
                                   peer.header.tag, peer.header.bytes);
    if (peer.arrival && peer.received == headerBytes + peer.header.bytes) {
      mailbox.complete(peer.arrival);
      peer.arrival = nullptr;
      peer.received = 0;
    }
  }
}

void TcpTransport::work() {
  std::vector<pollfd> entries(peers.size() + 1);
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping) {
    for (size_t i = 0; i < peers.size(); ++i)
      entries[i] = {peers[i].socket.get(),
                    short(POLLIN | (peers[i].queue.empty() ? 0 : POLLOUT)), 0};
    entries.back() = {wakeup.get(), POLLIN, 0};
    lock.unlock();
    poll(entries.data(), entries.size(), -1);
    lock.lock();
    uint64_t count;
    (void)!::read(wakeup.get(), &count, sizeof count);
    for (size_t i = 0; i < peers.size(); ++i) {
      bool alive = true;
      if (entries[i].revents & POLLOUT)
        alive = write(peers[i]);
      if (entries[i].revents & (POLLIN | POLLHUP | POLLERR))
        alive = read(peers[i]) && alive;
      if (!alive)
        peers[i].socket.close();
    }
    progressed.notify_all();
  }
}

void TcpTransport::finish() {
  {
    std::unique_lock<std::mutex> lock(mutex);
    progressed.wait(lock, [&] {
      return std::all_of(peers.begin(), peers.end(), [](const Peer &peer) {
        return peer.queue.empty() || !peer.socket;
      });
    });
  }
  stop();
}

std::unique_ptr<Transport> rt::openTcp(const Launch &launch) {
  return std::make_unique<TcpTransport>(
      launch, meet(launch, int64_t(launch.joinSeconds) * 1000));
}
