//===- Socket.h - TCP connections -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Listens on all IPv4 addresses; port 0: any. None when the port is taken.
Socket listenOn(int port, int backlog);
int portOf(const Socket &socket);

/// The next connection of a listener, or none after `milliseconds`.
Socket acceptFrom(const Socket &listener, int milliseconds);

/// None when there is no such host, or nobody listens, or nothing answers.
Socket connectTo(const std::string &host, int port, int milliseconds);

/// The IPv4 address of the other side, as "10.0.0.1".
std::string peerAddress(const Socket &socket);
/// This machine's IPv4 addresses, those of loopback last.
std::vector<std::string> ownAddresses();
std::string hostName();

/// Whole messages over a blocking or non-blocking socket; false when the
/// connection ends or `milliseconds` pass.
bool sendAll(const Socket &socket, const void *data, size_t bytes,
             int milliseconds);
bool receiveAll(const Socket &socket, void *data, size_t bytes,
                int milliseconds);

/// For a connection that carries small messages, read when poll says so.
void makeNonBlocking(const Socket &socket);

/// Now, in milliseconds of a clock that does not jump.
int64_t nowMilliseconds();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_SOCKET_H
