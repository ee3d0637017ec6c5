//===- HttpServer.h - An HTTP/1.1 server ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small HTTP/1.1 server on one thread. It knows nothing about models:
// ServiceFront connects it to OpenAI's API.
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

/// Status in the access log and the metrics for a request whose client closed
/// the connection before the answer was complete.
inline constexpr int clientGone = 499;

/// A request and its answer, for the access log.
struct HttpAccess {
  std::string peer, method, path;
  int status = 0;
  /// Why the request was refused; empty if it was answered.
  std::string reason;
  double seconds = 0; ///< From the request to the end of the answer.
};

/// The server's address and limits.
struct HttpOptions {
  /// An address, or a name that resolves to one.
  std::string host = "127.0.0.1";
  uint16_t port = 8080;         ///< The TCP port; 0: any free port.
  int64_t maxHeader = 16 << 10; ///< Bytes; larger headers get status 431.
  int64_t maxBody = 4 << 20;    ///< Bytes; larger bodies get status 413.
  /// Limit of connections. At the limit, a new connection replaces the one that
  /// has been idle the longest. If none is idle, the new one gets status 503.
  int64_t maxConnections = 1000;
  /// Limit of bytes of an answer that wait because the client does not read
  /// them. A connection is closed if more bytes wait, or if the client reads
  /// nothing for `seconds`.
  int64_t maxUnread = 4 << 20;
  /// Time limit for a request to arrive, and for progress in sending an answer.
  int64_t seconds = 30;
  /// Origins for which browsers may show the answers (CORS); "*": all.
  std::vector<std::string> allowedOrigins;
  /// Called on the server's thread when an answer has ended; may be empty.
  std::function<void(const HttpAccess &)> onAnswered;
};

struct HttpRequest {
  std::string method, path, body;
  std::string authorization; ///< `Authorization` header, or empty.
  std::string encoding;      ///< `Content-Encoding` header, or empty.
  std::string peer;          ///< Address of the client, without the port.
};

/// The answer to one request. The handler calls either `send`, or `begin`, then
/// `write` any number of times, and then `end`. Writes after the connection was
/// closed are ignored. Used on the server's thread only.
class HttpReply {
public:
  virtual ~HttpReply() = default;
  virtual void send(int status, const std::string &type,
                    const std::string &body) = 0;
  virtual void begin(const std::string &type) = 0;
  virtual void write(const std::string &part) = 0;
  virtual void end() = 0;
  /// Whether the connection is closed or the answer has ended.
  virtual bool isGone() const = 0;
  /// Called when the client closes the connection before the answer has ended.
  std::function<void()> onClose;
  /// Methods for an answer with status 405, such as "GET, HEAD".
  std::string allowed;
  /// For the access log: status and reason of an answer that fails after it has
  /// begun.
  int status = 0;
  std::string reason;
};

/// Formats an address as in URLs: `127.0.0.1:8080`, or `[::1]:8080`.
std::string hostAndPort(const std::string &host, uint16_t port);

/// Serves HTTP/1.1 on a thread of its own.
class HttpServer {
public:
  /// Called with each request on the server's thread, which it must not block.
  /// It may answer at once, or keep the reply and answer later.
  using Handler =
      std::function<void(HttpRequest, const std::shared_ptr<HttpReply> &)>;
  /// Writes the body (JSON) of an answer that refuses a malformed request.
  using Refusal =
      std::function<std::string(int status, const std::string &message)>;

  /// Binds the port, which refuses connections until `listen`. Throws H0150
  /// when that fails.
  HttpServer(const HttpOptions &options, Handler handler, Refusal refusal);
  ~HttpServer();

  uint16_t port() const;
  /// Accepts connections, whose requests wait until `start`. Throws H0150 when
  /// another process listens on the port by now.
  void listen();
  /// Starts to answer requests.
  void start();
  /// Makes the server's thread call `action` soon. Thread-safe.
  void post(std::function<void()> action);
  /// Accepts no more connections and requests, waits at most `seconds` until
  /// answers that have begun are sent, and ends the thread. Must not be called
  /// on the server's thread.
  void finish(int64_t seconds);

private:
  struct State;
  class Session;
  std::unique_ptr<State> state;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_HTTPSERVER_H
