//===- HttpServerTest.cpp - Tests of requests over HTTP -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/HttpServer.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A server whose answers never end, and a client that does not read them.
struct Endless {
  explicit Endless(const HttpOptions &options)
      : server(
            options,
            [this](HttpRequest, std::shared_ptr<HttpReply> reply) {
              reply->onClose = [this] { isGone = true; };
              kept = reply;
              reply->begin("text/plain");
              writeOn(reply);
            },
            [](int, const std::string &) { return "{}"; }) {
    server.listen();
    server.start();
    client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_port = htons(server.port());
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        connect(client, reinterpret_cast<sockaddr *>(&place), sizeof place), 0);
    std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_EQ(write(client, request.data(), request.size()),
              ssize_t(request.size()));
  }
  ~Endless() { close(client); }

  void writeOn(const std::shared_ptr<HttpReply> &reply) {
    if (isGone || written >= mostWritten)
      return;
    written += 1 << 16;
    reply->write(std::string(1 << 16, 'x'));
    server.post([this, reply] { writeOn(reply); });
  }
  bool waitUntilGone(int seconds) const {
    for (int i = 0; i < seconds * 100 && !isGone; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return isGone;
  }

  std::atomic<bool> isGone = false;
  std::atomic<int64_t> written = 0, mostWritten = int64_t(1) << 30;
  int client;
  std::shared_ptr<HttpReply> kept;
  HttpServer server;
};

HttpOptions options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

} // namespace

TEST(HttpServer, LeavesAReaderThatIsFarBehind) {
  Endless endless(options());
  EXPECT_TRUE(endless.waitUntilGone(20));
  // The system's buffers take some of it.
  EXPECT_LT(endless.written, int64_t(64) << 20);
}

TEST(HttpServer, LeavesAReaderThatTakesNothing) {
  HttpOptions some = options();
  some.maxUnread = int64_t(1) << 30;
  some.seconds = 1;
  Endless endless(some);
  endless.mostWritten = int64_t(32) << 20;
  EXPECT_TRUE(endless.waitUntilGone(20));
}

TEST(HttpServer, WritesAddressesAsUrlsDo) {
  EXPECT_EQ(hostAndPort("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(hostAndPort("host", 80), "host:80");
  EXPECT_EQ(hostAndPort("::1", 8080), "[::1]:8080");
  EXPECT_EQ(hostAndPort("[::1]", 8080), "[::1]:8080");
}

TEST(HttpServer, ListensAtAddressesOfIPv6) {
  HttpOptions inBrackets = options();
  inBrackets.host = "[::1]";
  try {
    HttpServer server(
        inBrackets, [](HttpRequest, std::shared_ptr<HttpReply>) {},
        [](int, const std::string &) { return "{}"; });
    server.listen();
    EXPECT_GT(server.port(), 0);
  } catch (const UserError &error) {
    // A machine may have no address of IPv6; the name is read in any case.
    EXPECT_EQ(error.diagnostic.message.rfind("cannot listen at [::1]:0: ", 0),
              0u)
        << error.diagnostic.message;
  }
}

TEST(HttpServer, SaysWhyItCannotListen) {
  HttpServer first(
      options(), [](HttpRequest, std::shared_ptr<HttpReply>) {},
      [](int, const std::string &) { return "{}"; });
  first.listen();
  auto refusal = [](const HttpOptions &options) {
    try {
      HttpServer second(
          options, [](HttpRequest, std::shared_ptr<HttpReply>) {},
          [](int, const std::string &) { return "{}"; });
    } catch (const UserError &error) {
      EXPECT_EQ(error.diagnostic.code, "H0150");
      return error.diagnostic.message + "; " + error.diagnostic.help;
    }
    return std::string("listens");
  };
  HttpOptions same = options();
  same.port = first.port();
  EXPECT_EQ(refusal(same),
            "cannot listen at 127.0.0.1:" + std::to_string(same.port) +
                ": Address already in use; give another port: --port " +
                std::to_string(same.port + 1) +
                ", or --port 0 for one that is free");
  HttpOptions both = options();
  both.host = "127.0.0.1:8080";
  EXPECT_NE(refusal(both).find("--host 127.0.0.1 --port 8080"),
            std::string::npos);
  HttpOptions nowhere = options();
  nowhere.host = "192.0.2.1";
  EXPECT_NE(refusal(nowhere).find("cannot listen at 192.0.2.1:0"),
            std::string::npos);
}
