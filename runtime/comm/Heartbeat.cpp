//===- Heartbeat.cpp - Detect ranks that died or hang ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The protocol of the heartbeat: beats, alarms and goodbyes on connections to
// rank 0.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Heartbeat.h"

#include "heddle/runtime/comm/Socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// The heartbeat's thread checks at least every so many milliseconds whether
/// this rank's activity has changed, and how long other ranks have been silent.
static constexpr int tickTime = 100;
/// If two checks are more than this many milliseconds apart, the operating
/// system has not scheduled this process in between. That time must not count
/// as silence of other ranks.
static constexpr int64_t gapTime = 5 * tickTime;
/// Milliseconds between two messages ("beats") of a rank. If the rank's
/// activity has changed, the thread sends a beat at its next check, at most
/// `tickTime` later.
static constexpr int64_t beatTime = 500;
static constexpr int64_t silenceTime = 6000;
static constexpr int connectTime = 20000;

namespace {
enum class Kind : int32_t { Beat, Goodbye, Failed, Alarm };

struct Message {
  uint64_t token = 0;
  Kind kind = Kind::Beat;
  int32_t rank = 0; ///< The sender; in an alarm the rank that is lost.
  int64_t step = -1;
  char code[8] = "";
  char text[480] = "";
};

struct Connection {
  Socket socket;
  int rank = 0; ///< Rank at the other end.
  Message partial;
  size_t received = 0;
  Message last; ///< Last beat received.
  int64_t silence = 0;
  bool saidGoodbye = false;
};
} // namespace

void ActivitySlot::set(int64_t step, std::string_view text) {
  uint64_t buffer[numWords] = {};
  std::memcpy(&buffer[0], &step, sizeof step);
  std::memcpy(&buffer[1], text.data(), std::min(text.size(), maxText));
  uint64_t before = sequence.load(std::memory_order_relaxed);
  sequence.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < numWords; ++i)
    words[i].store(buffer[i], std::memory_order_relaxed);
  sequence.store(before + 2, std::memory_order_release);
}

void ActivitySlot::get(int64_t &step, char *text) const {
  uint64_t buffer[numWords], before, after;
  do {
    before = sequence.load(std::memory_order_acquire);
    for (size_t i = 0; i < numWords; ++i)
      buffer[i] = words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    after = sequence.load(std::memory_order_relaxed);
  } while (before != after || before % 2);
  std::memcpy(&step, &buffer[0], sizeof step);
  std::memcpy(text, &buffer[1], maxText + 1);
}

/// The connections of this rank, and the thread that serves them.
class Heartbeat::Star {
public:
  Star(Transport &transport, const ActivitySlot &activity, Handler onAlarm);
  ~Star() { stop(); }
  void end(Kind kind, const std::string &text);

private:
  void acceptOthers(const Socket &listener, uint64_t token);
  void connectToFirst(const std::string &text);
  void work();
  void tick(int64_t elapsed);
  void sendBeats(int64_t now);
  bool read(Connection &connection);
  void take(Connection &connection, const Message &message);
  void broadcast(const Message &message, const Connection *except);
  void raise(const char *code, const Connection &from,
             const Message &lastOfRank);
  void alarm(const Message &alarm);
  void stop();

  const ActivitySlot &activity;
  Handler onAlarm;
  int self, size;
  uint64_t token = 0;
  std::vector<std::string> hosts;
  std::vector<Connection> connections;
  uint64_t sentVersion = 0;
  int64_t sentTime = 0;
  bool raised = false;
  std::atomic<bool> stopping = false;
  Socket wakeup;
  std::thread worker;
};

Heartbeat::Heartbeat(Transport &transport, Handler onAlarm) {
  activity.set(-1, "");
  if (transport.size() > 1)
    star = std::make_unique<Star>(transport, activity, std::move(onAlarm));
}

Heartbeat::~Heartbeat() = default;

void Heartbeat::goodbye() {
  if (star)
    star->end(Kind::Goodbye, "");
  star.reset();
}

void Heartbeat::failed(const std::string &message) {
  if (!star)
    return;
  star->end(Kind::Failed, message);
}

/// Sends a message if the socket accepts it at once. Otherwise drops the
/// message, because a peer that does not read must not block this thread.
static bool sendMessage(const Socket &socket, const Message &message) {
  constexpr int restTime = 100;
  auto *bytes = reinterpret_cast<const char *>(&message);
  ssize_t sent =
      send(socket.get(), bytes, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent > 0 &&
         sendAll(socket, bytes + sent, sizeof message - sent, restTime);
}

Heartbeat::Star::Star(Transport &transport, const ActivitySlot &activity,
                      Handler onAlarm)
    : activity(activity), onAlarm(std::move(onAlarm)), self(transport.rank()),
      size(transport.size()), wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Socket listener;
  std::ostringstream place;
  place << hostName() << ' ';
  if (self == 0) {
    listener = listenOn(0, size);
    uint64_t number =
        std::hash<std::string>()(hostName()) ^ (uint64_t(getpid()) << 32) ^
        static_cast<uint64_t>(
            std::chrono::steady_clock::now().time_since_epoch().count());
    place << portOf(listener) << ' ' << number;
    for (const std::string &address : ownAddresses())
      place << ' ' << address;
  }
  std::vector<std::string> places = exchangeTexts(transport, place.str());
  for (const std::string &each : places)
    hosts.push_back(each.substr(0, each.find(' ')));
  if (self == 0) {
    std::istringstream own(places[0]);
    std::string host, port;
    own >> host >> port >> token;
    acceptOthers(listener, token);
  } else {
    connectToFirst(places[0]);
  }
  for (Connection &connection : connections)
    makeNonBlocking(connection.socket);
  sentTime = nowMilliseconds() - beatTime;
  worker = std::thread([this] { work(); });
}

void Heartbeat::Star::acceptOthers(const Socket &listener, uint64_t token) {
  std::vector<bool> came(size);
  int64_t deadline = nowMilliseconds() + connectTime;
  while (static_cast<int>(connections.size()) < size - 1) {
    int64_t left = std::max<int64_t>(0, deadline - nowMilliseconds());
    Connection connection;
    connection.socket = acceptFrom(listener, static_cast<int>(left));
    Message hello;
    if (!connection.socket) {
      int missing = 1;
      while (came[missing])
        ++missing;
      fail("H0225",
           "rank " + std::to_string(missing) + " (" + hosts[missing] +
               ") cannot reach rank 0 (" + hosts[0] + ") for its heartbeat",
           "let the hosts connect to each other over TCP");
    }
    if (!receiveAll(connection.socket, &hello, sizeof hello, beatTime) ||
        hello.token != token || hello.rank < 1 || hello.rank >= size ||
        came[hello.rank])
      continue;
    came[hello.rank] = true;
    connection.rank = hello.rank;
    connections.push_back(std::move(connection));
  }
}

void Heartbeat::Star::connectToFirst(const std::string &text) {
  std::istringstream place(text);
  std::string host, address;
  std::vector<std::string> addresses;
  int port = 0;
  place >> host >> port >> token;
  while (place >> address)
    addresses.push_back(address);
  bool isHere = host == hosts[self];
  if (isHere) // Loopback is the last address, and always works on this host.
    std::reverse(addresses.begin(), addresses.end());
  constexpr int tryTime = 2000;
  Message hello;
  hello.token = token;
  hello.rank = self;
  for (const std::string &each : addresses) {
    if (!isHere && each.rfind("127.", 0) == 0)
      continue;
    Connection connection;
    connection.socket = connectTo(each, port, tryTime);
    if (!connection.socket || !sendMessage(connection.socket, hello))
      continue;
    connections.push_back(std::move(connection));
    return;
  }
  fail("H0225",
       "rank " + std::to_string(self) + " (" + hosts[self] +
           ") cannot reach rank 0 (" + host + ") for its heartbeat",
       "let the hosts connect to each other over TCP");
}

void Heartbeat::Star::work() {
  std::vector<pollfd> entries(connections.size() + 1);
  int64_t last = nowMilliseconds();
  while (!stopping && !raised) {
    sendBeats(last);
    for (size_t i = 0; i < connections.size(); ++i)
      entries[i] = {connections[i].socket.get(), POLLIN, 0};
    entries.back() = {wakeup.get(), POLLIN, 0};
    poll(entries.data(), entries.size(), tickTime);
    int64_t now = nowMilliseconds();
    // Process received messages before the check for silence (`tick`): they may
    // have arrived while this process was not scheduled.
    for (size_t i = 0; i < connections.size() && !raised && !stopping; ++i) {
      Connection &connection = connections[i];
      if (entries[i].revents == 0 || read(connection))
        continue;
      connection.socket.close();
      if (!connection.saidGoodbye)
        raise("H0421", connection, connection.last);
    }
    tick(now - last);
    last = now;
  }
}

void Heartbeat::Star::sendBeats(int64_t now) {
  if (now - sentTime < beatTime && activity.version() == sentVersion)
    return;
  Message beat;
  beat.token = token;
  beat.rank = self;
  sentVersion = activity.version();
  activity.get(beat.step, beat.text);
  sentTime = now;
  broadcast(beat, nullptr);
}

void Heartbeat::Star::tick(int64_t elapsed) {
  if (elapsed > gapTime)
    return;
  for (Connection &connection : connections) {
    if (raised || stopping)
      return;
    if (!connection.socket || connection.saidGoodbye)
      continue;
    connection.silence += elapsed;
    if (connection.silence > silenceTime)
      raise("H0422", connection, connection.last);
  }
}

/// Reads the messages that have arrived. Returns false if the peer has closed
/// the connection.
bool Heartbeat::Star::read(Connection &connection) {
  while (true) {
    auto *into = reinterpret_cast<char *>(&connection.partial);
    ssize_t got = recv(connection.socket.get(), into + connection.received,
                       sizeof(Message) - connection.received, MSG_DONTWAIT);
    if (got == 0)
      return false;
    if (got < 0)
      return errno == EAGAIN || errno == EINTR;
    connection.silence = 0;
    connection.received += got;
    if (connection.received < sizeof(Message))
      continue;
    connection.received = 0;
    take(connection, connection.partial);
    if (raised)
      return true;
  }
}

void Heartbeat::Star::take(Connection &connection, const Message &message) {
  switch (message.kind) {
  case Kind::Beat:
    connection.last = message;
    break;
  case Kind::Goodbye:
    connection.saidGoodbye = true;
    break;
  case Kind::Failed:
    connection.saidGoodbye = true;
    raise("H0423", connection, message);
    break;
  case Kind::Alarm:
    alarm(message);
    break;
  }
}

void Heartbeat::Star::broadcast(const Message &message,
                                const Connection *except) {
  for (Connection &connection : connections)
    if (&connection != except && connection.socket)
      sendMessage(connection.socket, message);
}

void Heartbeat::Star::raise(const char *code, const Connection &from,
                            const Message &lastOfRank) {
  Message message = lastOfRank;
  // The step in the lost rank's last beat may be out of date. Ranks run their
  // steps together, so the lost rank has reached at least this rank's step.
  int64_t step = -1;
  char text[ActivitySlot::maxText + 1];
  activity.get(step, text);
  if (lastOfRank.kind == Kind::Beat && step > message.step) {
    message.step = step;
    std::snprintf(message.text, sizeof message.text, "%s", text);
  }
  message.kind = Kind::Alarm;
  message.rank = from.rank;
  std::snprintf(message.code, sizeof message.code, "%s", code);
  broadcast(message, &from);
  alarm(message);
}

void Heartbeat::Star::alarm(const Message &message) {
  raised = true;
  std::string code(message.code);
  std::string text = "rank " + std::to_string(message.rank) + " (" +
                     hosts[message.rank] + ") ";
  text += code == "H0421"   ? "died"
          : code == "H0422" ? "stopped answering"
                            : "ended with an error";
  text += message.step < 0 ? " before the first step"
                           : " in step " + std::to_string(message.step);
  if (message.text[0])
    text += (code == "H0423" ? ": " : ", in ") + std::string(message.text);
  Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.message = text;
  if (code == "H0421")
    diagnostic.help = "start the job again; the system's log of that machine "
                      "(dmesg) says if it killed the process, as it does when "
                      "memory runs out";
  else if (code == "H0422")
    diagnostic.help = "start the job again, when that machine and the way to "
                      "it are well";
  if (!stopping)
    onAlarm(diagnostic, message.rank);
}

void Heartbeat::Star::stop() {
  stopping = true;
  uint64_t one = 1;
  (void)!write(wakeup.get(), &one, sizeof one);
  if (worker.joinable())
    worker.join();
}

void Heartbeat::Star::end(Kind kind, const std::string &text) {
  stop();
  Message message;
  message.token = token;
  message.kind = kind;
  message.rank = self;
  int64_t step = -1;
  activity.get(step, message.text);
  message.step = step;
  std::snprintf(message.text, sizeof message.text, "%s", text.c_str());
  if (self == 0 && kind == Kind::Failed) {
    message.kind = Kind::Alarm;
    std::snprintf(message.code, sizeof message.code, "H0423");
  }
  broadcast(message, nullptr);
}
