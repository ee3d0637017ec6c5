//===- HttpServer.cpp - An HTTP/1.1 server --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The HTTP server on Boost.Beast: State accepts connections, a Session reads
// the requests of one connection one after the other, and a Reply sends the
// answer.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/HttpServer.h"
#include "HttpAddress.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <poll.h>
#include <set>
#include <sstream>
#include <thread>

using namespace heddle;
using namespace heddle::rt;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using beast::error_code;

using Clock = std::chrono::steady_clock;

struct HttpServer::State {
  State(const HttpOptions &options, Handler handler, Refusal refusal)
      : options(options), handler(std::move(handler)),
        refusal(std::move(refusal)), acceptor(context), deadline(context) {}
  void bind();
  void listen();
  [[noreturn]] void failToListen(const error_code &error) const;
  void accept();
  bool closeLongestIdle();

  HttpOptions options;
  Handler handler;
  Refusal refusal;
  std::set<Session *> sessions; ///< All live sessions.
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::steady_timer deadline; ///< Time limit of the orderly end.
  bool isEnding = false;
  std::mutex finishing; ///< Held by the thread that ends the server.
  std::thread thread;
};

/// Reads the requests of one connection, one after the other. The object lives
/// until no asynchronous operation of the connection and no Reply refers to it.
class HttpServer::Session : public std::enable_shared_from_this<Session> {
public:
  Session(State &server, tcp::socket socket)
      : server(server), stream(std::move(socket)), early(server.context) {
    server.sessions.insert(this);
    error_code error;
    tcp::endpoint peer = stream.socket().remote_endpoint(error);
    if (!error)
      access.peer = nameOf(peer.address());
    stream.socket().set_option(tcp::no_delay(true), error);
  }
  ~Session() {
    server.sessions.erase(this);
    if (server.isEnding && server.sessions.empty())
      server.deadline.cancel();
  }

  void read();
  /// Answers with an error and closes the connection.
  void refuse(int status, const std::string &message);
  /// Closes the connection unless a request is being answered, or bytes of an
  /// answer are being sent.
  void closeIfIdle() {
    if (!reply.lock() && !isWriting)
      close();
  }
  void close();
  /// Whether no byte of a request has come since the last answer.
  bool isIdle() const {
    return isReading && !isClosed && !parser->got_some() && buffer.size() == 0;
  }
  Clock::time_point idleSince() const { return begun; }

private:
  class Reply;
  void readBody();
  void onRequest();
  void onReadError(error_code error);
  /// Detects that the client closes the connection before it has its answer.
  /// Waits for input, a wait that also ends when the connection is closed.
  void watch();
  /// Takes over from `watch` if the client has already sent its next request.
  /// The bytes of this request are not read yet, so a wait for input would
  /// return at once. Checks the connection at intervals instead.
  void watchBehind();
  void put(std::string bytes);
  void writeNext();
  /// Called when the answer is complete.
  void endReply();
  /// Closes the connection once the client has stopped sending, or has sent a
  /// lot: an immediate close could make the client lose the answer.
  void linger();
  std::string head(int status, const std::string &type,
                   std::optional<int64_t> length,
                   const std::string &allowed = "");
  void allowOrigin(http::fields &answer) const;
  /// Stores what the answer and the access log need from the request's head.
  void takeHead();
  /// Reports the answer to the access log.
  void tell(int status, const std::string &reason);

  State &server;
  beast::tcp_stream stream;
  asio::steady_timer early;
  beast::flat_buffer buffer;
  std::optional<http::request_parser<http::string_body>> parser;
  HttpAccess access;                ///< The request that is read or answered.
  std::string origin, askedHeaders; ///< CORS headers of that request.
  /// The time at which the server began to read the request. Set again to the
  /// time at which the request's head has arrived.
  Clock::time_point begun;
  std::weak_ptr<Reply> reply; ///< Reply to the request that is being answered.
  uint64_t numRequests = 0;
  std::deque<std::string> unsent;
  int64_t unsentBytes = 0, lingeringBytes = 0;
  unsigned version = 11;
  bool isHead = false; ///< HEAD request: the answer has no body.
  /// Whether a request is being read. While it is, the time limit for its
  /// arrival must not be extended.
  bool isReading = false;
  bool keepsAlive = false, isWriting = false, isAnswered = false,
       isRefused = false, isClosed = false;
};

class HttpServer::Session::Reply : public HttpReply {
public:
  explicit Reply(std::shared_ptr<Session> session)
      : session(std::move(session)) {}

  void send(int status, const std::string &type,
            const std::string &body) override {
    this->status = status;
    if (session) {
      session->put(session->head(status, type, body.size(), allowed) +
                   (session->isHead ? std::string() : body));
    }
    finish();
  }
  void begin(const std::string &type) override {
    status = 200;
    if (session)
      session->put(session->head(200, type, std::nullopt));
  }
  void write(const std::string &part) override {
    if (!session || part.empty())
      return;
    if (session->version < 11)
      return session->put(part);
    std::ostringstream chunk;
    chunk << std::hex << part.size() << "\r\n" << part << "\r\n";
    session->put(chunk.str());
  }
  void end() override {
    if (session && session->version >= 11)
      session->put("0\r\n\r\n");
    finish();
  }
  bool isGone() const override { return !session; }
  /// Called when the connection is closed.
  void drop() {
    if (std::shared_ptr<Session> gone = std::move(session))
      gone->tell(clientGone, "the connection ended before the answer");
    if (onClose)
      std::exchange(onClose, nullptr)();
  }

private:
  void finish() {
    onClose = nullptr;
    if (std::shared_ptr<Session> ended = std::move(session)) {
      ended->tell(status, reason);
      ended->endReply();
    }
  }
  std::shared_ptr<Session> session; ///< Null once the connection is closed.
};

void HttpServer::Session::read() {
  if (server.isEnding)
    return close();
  isReading = true;
  begun = Clock::now();
  access.method = access.path = origin = "";
  parser.emplace();
  parser->header_limit(uint32_t(server.options.maxHeader));
  parser->body_limit(uint64_t(server.options.maxBody));
  stream.expires_after(std::chrono::seconds(server.options.seconds));
  http::async_read_header(stream, buffer, *parser,
                          [me = shared_from_this()](error_code error, size_t) {
                            if (error)
                              return me->onReadError(error);
                            me->readBody();
                          });
}

void HttpServer::Session::takeHead() {
  const http::request<http::string_body> &request = parser->get();
  version = request.version();
  begun = Clock::now();
  access.method = std::string(request.method_string());
  access.path = pathOf(std::string(request.target()));
  origin = std::string(request[http::field::origin]);
  askedHeaders =
      std::string(request[http::field::access_control_request_headers]);
}

void HttpServer::Session::tell(int status, const std::string &reason) {
  if (!server.options.onAnswered)
    return;
  access.status = status;
  access.reason = reason;
  access.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  server.options.onAnswered(access);
}

void HttpServer::Session::readBody() {
  takeHead();
  if (beast::iequals(parser->get()[http::field::expect], "100-continue"))
    put("HTTP/1.1 100 Continue\r\n\r\n");
  // The time limit for the arrival of the request also includes its body, so it
  // is not set again here.
  http::async_read(stream, buffer, *parser,
                   [me = shared_from_this()](error_code error, size_t) {
                     if (error)
                       return me->onReadError(error);
                     me->onRequest();
                   });
}

void HttpServer::Session::onReadError(error_code error) {
  isReading = false;
  if (error == http::error::header_limit)
    return refuse(431, "the headers have more than the " +
                           std::to_string(server.options.maxHeader) +
                           " bytes of the limit; send fewer or shorter ones");
  if (error == http::error::body_limit)
    return refuse(413, "the body has more than the " +
                           std::to_string(server.options.maxBody) +
                           " bytes of the limit; send several requests");
  if (error.category() ==
          http::make_error_code(http::error::bad_value).category() &&
      error != http::error::end_of_stream &&
      error != http::error::partial_message)
    return refuse(400, "this is not HTTP");
  close();
}

void HttpServer::Session::refuse(int status, const std::string &message) {
  keepsAlive = false;
  isRefused = true;
  std::string body = server.refusal(status, message);
  put(head(status, "application/json", body.size()) + body);
  tell(status, message);
  endReply();
}

void HttpServer::Session::onRequest() {
  isReading = false;
  stream.expires_never();
  http::request<http::string_body> request = parser->release();
  keepsAlive = request.keep_alive() && !server.isEnding;
  isAnswered = false;
  isHead = request.method() == http::verb::head;
  ++numRequests;
  HttpRequest made;
  made.method = access.method;
  made.path = access.path;
  made.authorization = std::string(request[http::field::authorization]);
  made.encoding = std::string(request[http::field::content_encoding]);
  made.body = std::move(request.body());
  made.peer = access.peer;
  auto created = std::make_shared<Reply>(shared_from_this());
  reply = created;
  watch();
  server.handler(std::move(made), created);
}

void HttpServer::Session::watch() {
  stream.socket().async_wait(
      tcp::socket::wait_read,
      [me = shared_from_this(), request = numRequests](error_code error) {
        std::shared_ptr<Reply> waiting = me->reply.lock();
        if (request != me->numRequests || me->isAnswered || !waiting)
          return;
        char byte;
        error_code peeked;
        me->stream.socket().non_blocking(true, peeked);
        if (!error)
          me->stream.socket().receive(asio::buffer(&byte, 1),
                                      tcp::socket::message_peek, error);
        if (error && error != asio::error::would_block)
          me->close();
        else if (!error)
          me->watchBehind();
      });
}

/// Checks at intervals whether the client has closed the connection. The client
/// has sent bytes that are not read yet, so waiting for input would return at
/// once.
void HttpServer::Session::watchBehind() {
  early.expires_after(std::chrono::milliseconds(500));
  early.async_wait(
      [seen = weak_from_this(), request = numRequests](error_code error) {
        std::shared_ptr<Session> me = seen.lock();
        if (error || !me || request != me->numRequests || me->isAnswered ||
            !me->reply.lock())
          return;
        pollfd state = {me->stream.socket().native_handle(), POLLRDHUP, 0};
        poll(&state, 1, /*timeout=*/0);
        if (state.revents != 0)
          me->close();
        else
          me->watchBehind();
      });
}

/// Adds the fields of the Fetch standard (CORS) with which a page of another
/// origin may read the answer. A preflight request names the headers that the
/// page wants to send. The answer allows them by their names, since "*" would
/// not include Authorization.
void HttpServer::Session::allowOrigin(http::fields &answer) const {
  const std::vector<std::string> &allowed = server.options.allowedOrigins;
  auto has = [&](const std::string &name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  };
  if (allowed.empty())
    return;
  bool isAny = has("*");
  if (!isAny)
    answer.set(http::field::vary, "Origin");
  if (!isAny && !has(origin))
    return;
  answer.set(http::field::access_control_allow_origin, isAny ? "*" : origin);
  if (access.method != "OPTIONS")
    return;
  answer.set(http::field::access_control_allow_methods, "GET, HEAD, POST");
  answer.set(http::field::access_control_allow_headers,
             askedHeaders.empty() ? "Authorization, Content-Type"
                                  : askedHeaders);
  answer.set(http::field::access_control_max_age, "600");
}

std::string HttpServer::Session::head(int status, const std::string &type,
                                      std::optional<int64_t> length,
                                      const std::string &allowed) {
  http::response<http::empty_body> response{http::status(status),
                                            version < 11 ? 10u : 11u};
  response.set(http::field::server, "heddle");
  response.set(http::field::content_type, type);
  if (length)
    response.content_length(*length);
  else if (version >= 11)
    response.chunked(true);
  else
    keepsAlive = false;
  if (!allowed.empty())
    response.set(http::field::allow, allowed);
  if (status == 401)
    response.set(http::field::www_authenticate, "Bearer");
  if (status == 429 || status == 503)
    response.set(http::field::retry_after, "1");
  allowOrigin(response);
  response.keep_alive(keepsAlive);
  std::ostringstream text;
  text << response.base();
  return text.str();
}

void HttpServer::Session::put(std::string bytes) {
  if (isClosed)
    return;
  unsentBytes += bytes.size();
  // An answer that is sent as a whole may exceed `maxUnread`. A streamed answer
  // ends if more bytes than that wait for the client to read them.
  if (!unsent.empty() && unsentBytes > server.options.maxUnread)
    return close();
  unsent.push_back(std::move(bytes));
  if (!isWriting)
    writeNext();
}

void HttpServer::Session::writeNext() {
  isWriting = true;
  if (!isReading)
    stream.expires_after(std::chrono::seconds(server.options.seconds));
  asio::async_write(stream, asio::buffer(unsent.front()),
                    [me = shared_from_this()](error_code error, size_t) {
                      me->isWriting = false;
                      if (error || me->isClosed)
                        return me->close();
                      me->unsentBytes -= me->unsent.front().size();
                      me->unsent.pop_front();
                      if (!me->unsent.empty())
                        return me->writeNext();
                      if (!me->isReading)
                        me->stream.expires_never();
                      if (me->isAnswered)
                        me->endReply();
                    });
}

void HttpServer::Session::endReply() {
  isAnswered = true;
  if (isWriting)
    return;
  isAnswered = false;
  reply.reset();
  if (keepsAlive && !isClosed)
    return read();
  error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  if (!isRefused)
    return close();
  stream.expires_after(std::chrono::seconds(2));
  linger();
}

void HttpServer::Session::linger() {
  constexpr int64_t most = int64_t(64) << 20;
  buffer.clear();
  stream.async_read_some(
      buffer.prepare(4096),
      [me = shared_from_this()](error_code error, size_t count) {
        me->lingeringBytes += int64_t(count);
        return error || me->lingeringBytes > most ? me->close() : me->linger();
      });
}

void HttpServer::Session::close() {
  if (std::exchange(isClosed, true))
    return;
  std::shared_ptr<Session> me = shared_from_this();
  stream.close();
  if (std::shared_ptr<Reply> waiting = reply.lock())
    waiting->drop();
}

void HttpServer::State::bind() {
  error_code error;
  tcp::resolver resolver(context);
  auto found = resolver.resolve(withoutBrackets(options.host),
                                std::to_string(options.port),
                                tcp::resolver::passive, error);
  if (error)
    fail("H0150",
         "--host " + options.host + " has no address: " + error.message(),
         helpForHost(options.host));
  tcp::endpoint place = *found.begin();
  acceptor.open(place.protocol(), error);
  if (!error)
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error)
    acceptor.bind(place, error);
  if (error)
    failToListen(error);
}

void HttpServer::State::listen() {
  error_code error;
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    failToListen(error);
}

void HttpServer::State::failToListen(const error_code &error) const {
  fail("H0150",
       "cannot listen at " + hostAndPort(options.host, options.port) + ": " +
           error.message(),
       error == asio::error::address_in_use
           ? "give another port: --port " + std::to_string(options.port + 1) +
                 ", or --port 0 for one that is free"
           : "give a port from 1024 on, and an address of this machine: "
             "--host 127.0.0.1 --port 8080");
}

/// Closes the connection that has been idle the longest; returns false if none
/// is idle.
bool HttpServer::State::closeLongestIdle() {
  Session *longest = nullptr;
  for (Session *session : sessions)
    if (session->isIdle() &&
        (!longest || session->idleSince() < longest->idleSince()))
      longest = session;
  if (longest)
    longest->close();
  return longest != nullptr;
}

void HttpServer::State::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (!acceptor.is_open())
      return;
    if (!error) {
      // Many clients keep idle connections open; a new one may replace one of
      // these.
      bool isFull = int64_t(sessions.size()) >= options.maxConnections &&
                    !closeLongestIdle();
      auto session = std::make_shared<Session>(*this, std::move(socket));
      if (isFull)
        session->refuse(503, "there are too many connections");
      else
        session->read();
      return accept();
    }
    // Accepting has failed, for example because too many files are open. Close
    // an idle connection, and wait a little before the next attempt.
    closeLongestIdle();
    deadline.expires_after(std::chrono::milliseconds(100));
    deadline.async_wait([this](error_code) {
      if (acceptor.is_open())
        accept();
    });
  });
}

HttpServer::HttpServer(const HttpOptions &options, Handler handler,
                       Refusal refusal)
    : state(std::make_unique<State>(options, std::move(handler),
                                    std::move(refusal))) {
  state->bind();
}

HttpServer::~HttpServer() { finish(0); }

uint16_t HttpServer::port() const {
  return state->acceptor.local_endpoint().port();
}

void HttpServer::listen() { state->listen(); }

void HttpServer::start() {
  state->accept();
  state->thread = std::thread([this] { state->context.run(); });
}

void HttpServer::post(std::function<void()> action) {
  asio::post(state->context, std::move(action));
}

void HttpServer::finish(int64_t seconds) {
  std::lock_guard lock(state->finishing);
  if (!state->thread.joinable())
    return;
  post([this, seconds] {
    state->isEnding = true;
    error_code ignored;
    state->acceptor.close(ignored);
    state->deadline.expires_after(std::chrono::seconds(seconds));
    state->deadline.async_wait([this](error_code) { state->context.stop(); });
    std::set<Session *> sessions = state->sessions;
    for (Session *session : sessions)
      session->closeIfIdle();
    if (state->sessions.empty())
      state->context.stop();
  });
  state->thread.join();
  // Replies may outlive the server.
  std::set<Session *> sessions = state->sessions;
  for (Session *session : sessions)
    session->close();
}
