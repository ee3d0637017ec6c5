//===- Socket.cpp - TCP connections ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace heddle::rt;

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

int64_t heddle::rt::nowMilliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch())
      .count();
}

static void sendAtOnce(const Socket &socket) {
  int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void heddle::rt::makeNonBlocking(const Socket &socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
}

Socket heddle::rt::listenOn(int port, int backlog) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(listener.get(), reinterpret_cast<sockaddr *>(&address),
           sizeof address) ||
      listen(listener.get(), backlog))
    return Socket();
  makeNonBlocking(listener);
  return listener;
}

int heddle::rt::portOf(const Socket &socket) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &size);
  return ntohs(address.sin_port);
}

/// Waits for `events`; returns false after `deadline`.
static bool waitFor(int fd, short events, int64_t deadline) {
  while (true) {
    pollfd entry = {fd, events, 0};
    int64_t left = std::max<int64_t>(0, deadline - nowMilliseconds());
    int ready = poll(&entry, 1, static_cast<int>(left));
    if (ready > 0)
      return true;
    if (ready == 0 || errno != EINTR)
      return false;
  }
}

Socket heddle::rt::acceptFrom(const Socket &listener, int milliseconds) {
  if (!waitFor(listener.get(), POLLIN, nowMilliseconds() + milliseconds))
    return Socket();
  Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket)
    sendAtOnce(socket);
  return socket;
}

Socket heddle::rt::connectTo(const std::string &host, int port,
                             int milliseconds) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return Socket();
  Socket result;
  int64_t deadline = nowMilliseconds() + milliseconds;
  for (addrinfo *each = found; each && !result; each = each->ai_next) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    makeNonBlocking(socket);
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(socket.get(), each->ai_addr, each->ai_addrlen) &&
        (errno != EINPROGRESS || !waitFor(socket.get(), POLLOUT, deadline)))
      continue;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
      continue;
    sendAtOnce(socket);
    result = std::move(socket);
  }
  freeaddrinfo(found);
  return result;
}

std::string heddle::rt::peerAddress(const Socket &socket) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  char text[INET_ADDRSTRLEN] = "";
  getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address), &size);
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

std::vector<std::string> heddle::rt::ownAddresses() {
  std::vector<std::string> addresses;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list))
    return addresses;
  for (ifaddrs *each = list; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET)
      continue;
    char text[INET_ADDRSTRLEN] = "";
    auto *address = reinterpret_cast<sockaddr_in *>(each->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    addresses.push_back(text);
  }
  freeifaddrs(list);
  std::stable_partition(
      addresses.begin(), addresses.end(),
      [](const std::string &text) { return text.rfind("127.", 0) != 0; });
  return addresses;
}

std::string heddle::rt::hostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

bool heddle::rt::sendAll(const Socket &socket, const void *data, size_t bytes,
                         int milliseconds) {
  int64_t deadline = nowMilliseconds() + milliseconds;
  const char *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = send(socket.get(), from, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      from += sent;
      bytes -= sent;
    } else if (errno == EAGAIN) {
      if (!waitFor(socket.get(), POLLOUT, deadline))
        return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool heddle::rt::receiveAll(const Socket &socket, void *data, size_t bytes,
                            int milliseconds) {
  int64_t deadline = nowMilliseconds() + milliseconds;
  char *into = static_cast<char *>(data);
  while (bytes > 0) {
    if (!waitFor(socket.get(), POLLIN, deadline))
      return false;
    ssize_t received = recv(socket.get(), into, bytes, 0);
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (received > 0) {
      into += received;
      bytes -= received;
    }
  }
  return true;
}
