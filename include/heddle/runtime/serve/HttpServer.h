//===- HttpServer.h - Requests over HTTP ---------------------- -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_HTTPSERVER_H
#define HEDDLE_RUNTIME_SERVE_HTTPSERVER_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

/// The status of a request whose client went away.
inline constexpr int clientGone = 499;

/// A request and its answer, as a line of an access log has them.
struct HttpAccess {
  std::string peer, method, path;
  int status = 0;
  std::string reason; ///< Why the request was refused; empty: it was not.
  double seconds = 0; ///< From the request to the end of the answer.
};

/// Where a server listens, and what it puts up with.
struct HttpOptions {
  std::string host = "127.0.0.1"; ///< An address, or a name that has one.
  uint16_t port = 8080;           ///< 0: one that is free.
  int64_t maxHeader = 16 << 10;   ///< Bytes; more is answered with 431.
  int64_t maxBody = 4 << 20;      ///< Bytes; more is answered with 413.
  /// One more takes the place of the one that has waited for a request the
  /// longest; where all are busy, it is answered with 503.
  int64_t maxConnections = 1000;
  /// Bytes of an answer that its reader may be behind. Such a connection is
  /// closed, as one that takes nothing for `seconds`.
  int64_t maxUnread = 4 << 20;
  /// For a whole request to arrive, and for a part of an answer to leave.
  int64_t seconds = 30;
  /// Origins whose pages a browser lets read the answers (CORS); "*": all.
  std::vector<std::string> allowedOrigins;
  /// Called on the server's thread when an answer has ended; may be empty.
  std::function<void(const HttpAccess &)> onAnswered;
};

struct HttpRequest {
  std::string method, path, body;
  std::string authorization; ///< The header, or empty.
  std::string encoding;      ///< Of the body: `Content-Encoding`, or empty.
  std::string peer;          ///< The client's address, without its port.
};

/// The answer to one request: `send`, or `begin`, `write`s and `end`. What is
/// written after the connection is gone is thrown away. Used by the server's
/// thread alone.
class HttpReply {
public:
  virtual ~HttpReply() = default;
  virtual void send(int status, const std::string &type,
                    const std::string &body) = 0;
  virtual void begin(const std::string &type) = 0;
  virtual void write(const std::string &part) = 0;
  virtual void end() = 0;
  /// Whether the connection is gone, or the answer has ended.
  virtual bool isGone() const = 0;
  /// Is called when the client goes away before the answer has ended.
  std::function<void()> onClose;
  /// What an answer with 405 says: the methods that there are, as "GET, HEAD".
  std::string allowed;
  /// For the access log: the status, where an answer that had begun fails, and
  /// why it is an error.
  int status = 0;
  std::string reason;
};

/// As `127.0.0.1:8080`, or `[::1]:8080`: an address as URLs have it.
std::string hostAndPort(const std::string &host, uint16_t port);

/// Answers HTTP/1.1 on a thread of its own.
class HttpServer {
public:
  /// Called on the server's thread; must give an answer then or later.
  using Handler =
      std::function<void(HttpRequest, const std::shared_ptr<HttpReply> &)>;
  /// The answer to what the server refuses by itself; its body, a JSON text.
  using Refusal =
      std::function<std::string(int status, const std::string &message)>;

  /// Takes the port, which refuses connections until `listen`; throws H0150
  /// when it cannot.
  HttpServer(const HttpOptions &options, Handler handler, Refusal refusal);
  ~HttpServer();

  uint16_t port() const;
  /// Takes connections, which wait until `start`. Throws H0150 when somebody
  /// else listens by now.
  void listen();
  /// Begins to answer.
  void start();
  /// Has the server's thread call `action` soon. Any thread may call this.
  void post(std::function<void()> action);
  /// Takes no more connections and requests, waits until the answers that were
  /// begun have been sent, at most `seconds`, and ends the thread. Any other
  /// thread may call this.
  void finish(int64_t seconds);

private:
  struct State;
  class Session;
  std::unique_ptr<State> state;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_HTTPSERVER_H
