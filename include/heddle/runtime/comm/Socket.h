//===- Socket.h - TCP connections -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TCP sockets for ranks without MPI: listen, connect, and send whole messages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_SOCKET_H
#define HEDDLE_RUNTIME_COMM_SOCKET_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heddle::rt {

/// Owns a file descriptor; -1: none.
class Socket {
public:
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }

private:
  int fd = -1;
};

/// Listens on all IPv4 addresses; port 0: any free port. Returns an empty
/// Socket when the port is taken.
Socket listenOn(int port, int backlog);
int portOf(const Socket &socket);

/// Returns the next connection of a listener, or an empty Socket if none comes
/// within `milliseconds`.
Socket acceptFrom(const Socket &listener, int milliseconds);

/// Connects to a port. Returns an empty Socket for an unknown host, a refused
/// connection, or no answer in time.
Socket connectTo(const std::string &host, int port, int milliseconds);

/// Returns the IPv4 address of the peer, as "10.0.0.1".
std::string peerAddress(const Socket &socket);
/// Returns this machine's IPv4 addresses, loopback last.
std::vector<std::string> ownAddresses();
std::string hostName();

/// Send or receive a whole message over a blocking or non-blocking socket.
/// Return false when the connection ends or `milliseconds` pass.
bool sendAll(const Socket &socket, const void *data, size_t bytes,
             int milliseconds);
bool receiveAll(const Socket &socket, void *data, size_t bytes,
                int milliseconds);

/// Makes a socket non-blocking, so that a thread can poll many sockets for
/// small messages.
void makeNonBlocking(const Socket &socket);

/// Returns milliseconds of a monotonic clock.
int64_t nowMilliseconds();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_SOCKET_H
